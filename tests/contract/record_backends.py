"""Every database that the records contract is held on: SQLite always, others where the environment names an empty one.

STRATA_TEST_MYSQL, STRATA_TEST_MARIADB, STRATA_TEST_POSTGRES: SQLAlchemy URLs. Each test has a tenant of its own, so that a shared
server needs no emptying in between.
"""

import asyncio
import os
import shutil
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memory.ids import SessionId, TenantId, UserId
from memory.scope import Scope, system_scope
from storage.records import Database, SqlRecords, SqlTenants, create_engine, migrate

SERVERS = {name: os.environ.get(f"STRATA_TEST_{name.upper()}") for name in ("mysql", "mariadb", "postgres")}
BACKENDS = ["sqlite", *(name for name, url in SERVERS.items() if url)]
PATIENT_S = 30.0
"""The suite shares its processors: what is tested here is not speed."""


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty SQLite database at this release's schema."""
    path = tmp_path_factory.mktemp("records") / "empty.db"
    migrate(f"sqlite:///{path}")
    return path


@pytest.fixture(params=BACKENDS)
async def records_url(request: pytest.FixtureRequest, migrated: Path, tmp_path: Path) -> str:
    server = SERVERS.get(request.param)
    if server:
        await asyncio.to_thread(migrate, server)
        return server
    shutil.copy(migrated, tmp_path / "records.db")
    return f"sqlite:///{tmp_path / 'records.db'}"


@pytest.fixture
async def database(records_url: str) -> AsyncIterator[Database]:
    engine = create_engine(records_url, PATIENT_S)
    yield engine
    await engine.dispose()


@pytest.fixture
def records(database: Database) -> SqlRecords:
    return SqlRecords(database)


@pytest.fixture
def tenants(database: Database) -> SqlTenants:
    return SqlTenants(database)


@pytest.fixture
def alice() -> Scope:
    """A user of a tenant that nobody used before."""
    return Scope(TenantId(f"t{uuid.uuid4().hex}"), UserId("alice"), SessionId("s1"))


@pytest.fixture
def worker(alice: Scope) -> Scope:
    """Strata's own worker, for alice's tenant alone."""
    return system_scope(alice.tenant_id)
