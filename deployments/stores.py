"""The stores of a configuration, open in this process: what replicas and the command line have in common."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from deployments.references import Secrets, check_home, read_secrets, records_url, sessions_url
from deployments.settings import StoreSettings
from deployments.telemetry.stores import watched
from storage.index.blind import KeyRing
from storage.records import Database, SqlRecords, SqlTenants, check_schema, create_engine
from storage.records.versions import SqlVersions
from storage.sessions.client import SessionClient


@dataclass(frozen=True)
class Stores:
    settings: StoreSettings
    secrets: Secrets
    database: Database
    records: SqlRecords
    tenants: SqlTenants
    versions: SqlVersions
    keys: KeyRing


@contextlib.asynccontextmanager
async def open_stores(settings: StoreSettings) -> AsyncIterator[Stores]:
    """The records, of the schema that this release needs, and what opens the index; closed at the end. ConfigError where something
    is unfit. It connects when it is first used."""
    check_home(settings.home)
    secrets = await asyncio.to_thread(read_secrets, settings)
    database = create_engine(records_url(settings), settings.deadlines.records_s)
    try:
        await check_schema(database)
        records = watched(SqlRecords(database), "records")
        keys = KeyRing(records, secrets.master)
        yield Stores(
            settings, secrets, database, records, watched(SqlTenants(database), "tenants"), SqlVersions(database), keys
        )
    finally:
        await database.dispose()


@contextlib.asynccontextmanager
async def open_sessions(settings: StoreSettings) -> AsyncIterator[SessionClient]:
    """The session tier; the bundled server is started where it is not running."""
    client = SessionClient(await asyncio.to_thread(sessions_url, settings), deadline_s=settings.deadlines.sessions_s)
    try:
        yield client
    finally:
        await client.aclose()
