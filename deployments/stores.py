"""The stores of a configuration, open in this process: what replicas and the command line have in common."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from deployments.references import Secrets, check_home, read_secrets, records_url, sessions_url
from deployments.settings import StoreSettings
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
    redis: SessionClient


@contextlib.asynccontextmanager
async def open_stores(settings: StoreSettings) -> AsyncIterator[Stores]:
    """Of the schema that this release needs; closed at the end. ConfigError where something is unfit. Each connects when it is
    first used."""
    check_home(settings.home)
    secrets = await asyncio.to_thread(read_secrets, settings)
    async with contextlib.AsyncExitStack() as stack:
        redis = SessionClient(await asyncio.to_thread(sessions_url, settings), deadline_s=settings.deadlines.sessions_s)
        stack.push_async_callback(redis.aclose)
        database = create_engine(records_url(settings), settings.deadlines.records_s)
        stack.push_async_callback(database.dispose)
        await check_schema(database)
        records = SqlRecords(database)
        yield Stores(
            settings,
            secrets,
            database,
            records,
            SqlTenants(database),
            SqlVersions(database),
            KeyRing(records, secrets.master),
            redis,
        )
