"""Every database that the records contract is held on: SQLite, MariaDB, PostgreSQL, and MySQL where there is one
(tests/servers says how each is come by).

A server's database is shared by the whole run: each test has a tenant of its own, so that it needs no emptying in between.
"""

import functools
import shutil
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memory.ids import SessionId, TenantId, UserId
from memory.scope import Scope, system_scope
from storage.records import Database, SqlRecords, SqlTenants, SqlVersions, create_engine, migrate

SERVERS = ["mysql", "mariadb", "postgres"]
BACKENDS = ["sqlite", *SERVERS]
PATIENT_S = 30.0
"""The suite shares its processors: what is tested here is not speed."""


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty SQLite database at this release's schema."""
    path = tmp_path_factory.mktemp("records") / "empty.db"
    migrate(f"sqlite:///{path}")
    return path


@functools.cache
def migrated_server(url: str) -> str:
    """`url`, at this release's schema."""
    migrate(url)
    return url


@pytest.fixture(params=BACKENDS)
def records_url(request: pytest.FixtureRequest, migrated: Path, tmp_path: Path) -> str:
    if request.param in SERVERS:
        return migrated_server(request.getfixturevalue(request.param))
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
def versions(database: Database) -> SqlVersions:
    return SqlVersions(database)


@pytest.fixture
def alice() -> Scope:
    """A user of a tenant that nobody used before."""
    return Scope(TenantId(f"t{uuid.uuid4().hex}"), UserId("alice"), SessionId("s1"))


@pytest.fixture
def worker(alice: Scope) -> Scope:
    """Strata's own worker, for alice's tenant alone."""
    return system_scope(alice.tenant_id)
