"""The session server, the database and the index's server: whether they answer, and the settings that Strata's promises rest on."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, text

from deployments.doctor.findings import Finding, bad, ok, warn
from deployments.references import dereferenced
from deployments.settings import StoreSettings
from memory.errors import Unavailable
from storage.index.weaviate.settings import WeaviateSettings
from storage.records import Database
from storage.records.migrate import current_revision, head_revision
from storage.sessions import valkey_server
from storage.sessions.client import SessionClient

SKEW_S = 5.0
"""Leases are counted by each machine's own clock: much more than this, and a worker's lease ends before it began."""
LEAST_PACKET = 4 << 20
LEAST_REDIS = 7
FILES_A_TENANT = 7
"""Open files of the server for each tenant that is awake: six were counted, and one to spare."""


# --- sessions ---------------------------------------------------------------------------------------------------------


async def sessions(settings: StoreSettings) -> list[Finding]:
    """The server's version, and whether it would throw away or forget what it was given."""
    if settings.sessions_url == "bundled":
        url = valkey_server.running(settings.home)
        if url is None:
            return [warn("sessions", "the bundled server is not running", "`strata up` starts it")]
    else:
        url = dereferenced(settings.sessions_url, settings.home)
    client = SessionClient(url, deadline_s=settings.deadlines.sessions_s)
    try:
        await client.ping()
        facts = await client.facts()
    finally:
        await client.aclose()
    versions = sorted({one.version for one in facts})
    found = [ok("sessions", f"answers: {len(facts)} server(s), version {', '.join(versions)}")]
    if any(
        one.version.partition(".")[0].isdecimal() and int(one.version.partition(".")[0]) < LEAST_REDIS for one in facts
    ):
        found.append(
            warn("sessions.version", "is older than what Strata is tested with", "use Redis 7 or Valkey 7.2, or newer")
        )
    policies = sorted({one.maxmemory_policy for one in facts if one.maxmemory_policy != "noeviction"})
    if policies:
        said = f"maxmemory-policy is {', '.join(policy or 'not told' for policy in policies)}"
        fix = "set maxmemory-policy noeviction: else sessions, claims and fences vanish under memory pressure"
        found.append((bad if any(policies) else warn)("sessions.maxmemory", said, fix))
    else:
        found.append(ok("sessions.maxmemory", "maxmemory-policy is noeviction"))
    if all(one.appendonly for one in facts):
        found.append(ok("sessions.appendonly", "is on"))
    else:
        fix = "set appendonly yes: else a restart of the server ends every session"
        found.append(warn("sessions.appendonly", "is off, or not told", fix))
    return found


# --- records ----------------------------------------------------------------------------------------------------------


async def schema(database: Database) -> list[Finding]:
    found, needed = await current_revision(database), head_revision()
    if found == needed:
        return [ok("records.schema", f"is {needed}")]
    if found is None or found < needed:
        fix = "`strata up`, or the start of any replica, migrates it"
        return [bad("records.schema", f"is {found or 'not there'}, this release needs {needed}", fix)]
    return [bad("records.schema", f"is {found}, of a later release than this one ({needed})", "upgrade Strata")]


async def database(database: Database) -> list[Finding]:
    kind = database.url.get_backend_name()
    looks: dict[str, Callable[[Connection], list[Finding]]] = {
        "sqlite": _sqlite,
        "mysql": _mysql,
        "mariadb": _mysql,
        "postgresql": _postgresql,
    }
    return await database.read(looks[kind])


def _row(connection: Connection, statement: str) -> Any:
    row = connection.execute(text(statement)).first()
    if row is None:
        raise Unavailable("records")
    return row


def _sqlite(connection: Connection) -> list[Finding]:
    version = _row(connection, "SELECT sqlite_version()")[0]
    mode = _row(connection, "PRAGMA journal_mode")[0]
    found = [ok("records", f"answers: SQLite {version}")]
    if mode != "wal":
        fix = "let no other program open the file, and start Strata again"
        found.append(bad("records.journal", f"journal_mode is {mode}, not wal", fix))
    damage = connection.execute(text("PRAGMA quick_check(1)")).scalar()
    if damage != "ok":
        found.append(bad("records.file", "is damaged", "restore the records from a backup"))
    return found


def _mysql(connection: Connection) -> list[Finding]:
    version, mode, packet, flush, log, form, clock = _row(
        connection,
        "SELECT @@version, @@sql_mode, @@max_allowed_packet, @@innodb_flush_log_at_trx_commit, @@log_bin, @@binlog_format, "
        "UTC_TIMESTAMP(6)",
    )
    found = [ok("records", f"answers: {'MariaDB' if 'maria' in version.lower() else 'MySQL'} {version}")]
    if not {"STRICT_TRANS_TABLES", "STRICT_ALL_TABLES"} & set(mode.split(",")):
        fix = "set sql_mode to hold STRICT_TRANS_TABLES: else what does not fit is cut off without an error"
        found.append(bad("records.sql_mode", "is not strict", fix))
    else:
        found.append(ok("records.sql_mode", "is strict"))
    if int(packet) < LEAST_PACKET:
        fix = f"set max_allowed_packet to {LEAST_PACKET >> 20} MiB or more: else a large import is refused"
        found.append(warn("records.max_allowed_packet", f"is {int(packet) >> 10} KiB", fix))
    else:
        found.append(ok("records.max_allowed_packet", f"is {int(packet) >> 20} MiB"))
    if int(flush) != 1:
        fix = "set it to 1: else a power failure takes acknowledged writes with it"
        found.append(warn("records.innodb_flush_log_at_trx_commit", f"is {flush}", fix))
    if int(log) and str(form).upper() == "STATEMENT":
        fix = "set binlog_format to ROW or MIXED: Strata writes under READ COMMITTED, which STATEMENT refuses"
        found.append(bad("records.binlog_format", "is STATEMENT", fix))
    found.append(_skew(clock.replace(tzinfo=UTC)))
    return found


def _postgresql(connection: Connection) -> list[Finding]:
    version, fsync, commit, clock = _row(
        connection,
        "SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit'), "
        "clock_timestamp()",
    )
    found = [ok("records", f"answers: PostgreSQL {version}")]
    if fsync != "on" or commit == "off":
        fix = "turn fsync and synchronous_commit on: else a crash takes acknowledged writes with it"
        found.append(warn("records.durability", "is off", fix))
    found.append(_skew(clock.astimezone(UTC)))
    return found


def _skew(theirs: datetime) -> Finding:
    seconds = abs((datetime.now(UTC) - theirs).total_seconds())
    if seconds > SKEW_S:
        fix = "let both machines follow one time server: leases of workers are counted by their clocks"
        return bad("records.clock", f"differs from this machine's by {seconds:.0f} s", fix)
    return ok("records.clock", "agrees with this machine's")


# --- index ------------------------------------------------------------------------------------------------------------


async def weaviate(backend: Any, settings: WeaviateSettings) -> list[Finding]:
    """Its version, its nodes against the copies that are wanted, and what the tenants awake need of its file limit."""
    facts = await backend.server()
    found = [ok("index.server", f"Weaviate {facts.version or 'of an unknown version'}, {facts.nodes} healthy node(s)")]
    if facts.nodes < settings.replication_factor:
        said = f"{facts.nodes} healthy node(s) for {settings.replication_factor} copies: deletions and receipts wait"
        found.append(bad("index.nodes", said, "bring the other nodes back"))
    files = FILES_A_TENANT * settings.active_tenants
    said = f"{facts.awake} of at most {settings.active_tenants} tenants are awake"
    if facts.awake > settings.active_tenants:
        fix = "see that replicas run (they put tenants to sleep), or raise index.active_tenants and the file limit"
        found.append(warn("index.awake", said, fix))
    else:
        found.append(ok("index.awake", f"{said}: the server's open-file limit must be well above {files:,}"))
    return found
