"""The whole examination, in the order in which one thing rests on another."""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from deployments.doctor import servers
from deployments.doctor.drifting import drift
from deployments.doctor.findings import DEADLINE_S, Finding, Level, bad, looked_at, ok, warn
from deployments.doctor.models import models
from deployments.doctor.secrets import secrets
from deployments.indexes import OpenIndex, open_index
from deployments.references import records_url
from deployments.serve_file import ServeFile
from deployments.settings import StoreSettings
from memory.errors import ConfigError
from memory.policy import Policy
from memory.scope import system_scope
from storage.index.blind import KeyRing
from storage.keys import MasterKey
from storage.protocols import IndexVersion, TenantRecord, VersionState
from storage.records import Database, SqlRecords, SqlTenants, create_engine
from storage.records.versions import SqlVersions

LATE = timedelta(minutes=5)
LEAST_DISK = 1 << 30
FULL_S = 3600.0

Watch = Callable[[str], None]


async def examine(file: ServeFile, full: bool = False, watch: Watch = lambda part: None) -> list[Finding]:
    """Every finding. A store that is away costs its deadline, and the others are looked at all the same."""
    settings = file.stores
    watch("secrets")
    found = [*_home(file), *secrets(settings)]
    watch("sessions")
    found += await looked_at(
        "sessions", "check stores.sessions_url and that the server runs", lambda: servers.sessions(settings)
    )
    watch("records")
    if settings.records_url == "embedded" and not (settings.home / "data" / "records.db").exists():
        return [*found, warn("records", "are not there yet", "`strata up` makes them")]
    try:
        database = create_engine(records_url(settings), settings.deadlines.records_s)
    except ConfigError as error:
        return [*found, bad("records", error.where, error.fix)]
    try:
        return [*found, *await _of_records(file, database, full, watch)]
    finally:
        await database.dispose()


def _home(file: ServeFile) -> list[Finding]:
    home = file.stores.home
    if not home.is_dir():
        return [warn("home", f"{home} is not there", "`strata up` makes it")]
    free = shutil.disk_usage(home).free
    if free < LEAST_DISK:
        return [bad("home", f"{free >> 20} MiB are free at {home}", "make room: writes fail when the disk is full")]
    return [ok("home", f"{free >> 30} GiB are free at {home}")]


async def _of_records(file: ServeFile, database: Database, full: bool, watch: Watch) -> list[Finding]:
    away = "check stores.records_url and that the server runs"
    found = await looked_at("records", away, lambda: servers.database(database))
    if any(one.level is Level.BAD and one.part == "records" for one in found):
        return found  # it does not answer: nothing that rests on it does
    schema = await looked_at("records.schema", away, lambda: servers.schema(database))
    found += schema
    if any(one.level is Level.BAD for one in schema):
        return found
    records, tenants, versions = SqlRecords(database), SqlTenants(database), SqlVersions(database)
    listed: list[IndexVersion] = []
    known: list[TenantRecord] = []

    async def read() -> list[Finding]:
        listed.extend(await versions.versions(system_scope()))
        known.extend(await tenants.tenants(system_scope()))
        return [
            ok("tenants", f"{len(known)} are declared"),
            *models(file.inference.embedder, file.stores.home, listed),
            await _backlog(records),
        ]

    watch("models")
    found += await looked_at("records", away, read)
    keys = KeyRing(records, MasterKey(bytes(32)))  # nothing is sealed or opened here
    for version in listed:
        watch(f"index {version.model_key}")
        opened: list[OpenIndex] = []

        async def open_version(version: IndexVersion = version, opened: list[OpenIndex] = opened) -> list[Finding]:
            opened.append(await open_index(file.stores, versions, keys, version.model_key, version.dimension))
            await opened[0].index.ping()
            return [ok(_part(version), f"answers and takes writes ({version.state.value})")]

        found += await looked_at(_part(version), "check stores.index and that the server runs", open_version)
        if opened:
            try:
                found += await _of_index(records, opened[0], version, known, full, file.stores)
            finally:
                await opened[0].index.aclose()
    return found


def _part(version: IndexVersion) -> str:
    return "index" if version.state is VersionState.ACTIVE else f"index.{version.model_key}"


async def _of_index(
    records: SqlRecords,
    opened: OpenIndex,
    version: IndexVersion,
    known: list[TenantRecord],
    full: bool,
    settings: StoreSettings,
) -> list[Finding]:
    active = version.state is VersionState.ACTIVE
    away = "look again when the index answers"
    found: list[Finding] = []
    if active and settings.index != "local":
        chosen = settings.index
        found += await looked_at("index.server", away, lambda: servers.weaviate(opened.backend, chosen))
        found += await looked_at("isolation", away, lambda: _places(opened, known))
    living = [tenant.id for tenant in known if not tenant.erasing]
    part = f"{_part(version)}.drift"
    return found + await looked_at(
        part,
        away,
        lambda: drift(records, opened.index, part, living, active, full),
        FULL_S if full else 3 * DEADLINE_S,
    )


async def _places(opened: OpenIndex, known: list[TenantRecord]) -> list[Finding]:
    """Where tenants are against where their policies want them, and what moves left behind."""
    found = []
    for tenant in known:
        placement = opened.placements.of(tenant.id)
        wanted = Policy.model_validate(tenant.policy).isolation.value
        part, command = f"isolation.{tenant.id}", f"strata tenants move {tenant.id} --to "
        if placement.moving_to is not None:
            said = f"is being moved to {placement.moving_to}"
            found.append(warn(part, said, f"unless that runs: {command}{placement.moving_to}"))
        elif placement.place != wanted:
            found.append(warn(part, f"is a {placement.place}, its policy wants a {wanted}", command + wanted))
        elif opened.placements.placed(tenant.id) and await opened.left_over(tenant.id):
            found.append(bad(part, "has left something in the place that it was moved from", command + placement.place))
    return found


async def _backlog(records: SqlRecords) -> Finding:
    backlog = await records.backlog(system_scope())
    if backlog.oldest is None:
        return ok("backlog", "nothing waits for the index")
    age = datetime.now(UTC) - backlog.oldest
    said = f"{backlog.entries} entries wait for the index, the oldest since {age.total_seconds():.0f} s"
    if age > LATE:
        return warn("backlog", said, "see that the Curator and the Embedder run (strata_index_backlog_age_seconds)")
    return ok("backlog", said)
