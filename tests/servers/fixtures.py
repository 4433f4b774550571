"""What tests ask for by name. One server of a kind for the whole run, started when the first test asks."""

import functools
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.sessions import valkey_server
from tests.servers.mariadbd import MariaDb
from tests.servers.packages import Missing
from tests.servers.postgresql import Postgres
from tests.servers.redis_masters import RedisMasters
from tests.servers.redis_node import Redis
from tests.servers.redis_watched import WatchedRedis
from tests.servers.server import Server

LONGEST_START_S = 900
"""The first test to ask may have to install the packages, where `make test` has not."""


@pytest.fixture
def home() -> Iterator[Path]:
    """A short path (sockets allow about a hundred bytes); whatever server is left there is ended."""
    folder = Path(tempfile.mkdtemp(prefix="st-"))
    try:
        yield folder
    finally:
        valkey_server.stop(folder)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def valkey() -> Iterator[str]:
    """The URL of a bundled Valkey on a socket, shared by the whole run: take a fresh `tenant` for each test."""
    folder = Path(tempfile.mkdtemp(prefix="st-"))
    try:
        yield valkey_server.ensure_running(folder)
    finally:
        valkey_server.stop(folder)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def tenant() -> str:
    """An id that no other test uses."""
    return f"t_{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def mariadb() -> str:
    """SQLAlchemy URL of an empty database; its user may make others. STRATA_TEST_MARIADB names another server's."""
    return _named("STRATA_TEST_MARIADB") or _shared(MariaDb)


@pytest.fixture(scope="session")
def postgres() -> str:
    """SQLAlchemy URL of an empty database; its user may make others. STRATA_TEST_POSTGRES names another server's."""
    return _named("STRATA_TEST_POSTGRES") or _shared(Postgres)


@pytest.fixture(scope="session")
def mysql() -> str:
    """SQLAlchemy URL of a MySQL that somebody else started: no package that may be taken for granted has one."""
    url = _named("STRATA_TEST_MYSQL")
    if not url:
        pytest.skip("STRATA_TEST_MYSQL is not set: give the SQLAlchemy URL of an empty database on a MySQL 8 or 9")
    return url


@pytest.fixture(scope="session")
def redis_server() -> str:
    """redis:// of a single Redis. STRATA_TEST_REDIS names another."""
    return _named("STRATA_TEST_REDIS") or _shared(Redis)


@pytest.fixture(scope="session")
def redis_cluster() -> str:
    """redis+cluster:// of three masters."""
    return _shared(RedisMasters)


@pytest.fixture(scope="session")
def redis_sentinel() -> str:
    """redis+sentinel:// of a master with a replica, watched by three sentinels."""
    return _shared(_NeverDead)


class _NeverDead(WatchedRedis):
    """Shared by tests that kill nothing: however busy the machine, its master stays."""

    def __init__(self) -> None:
        super().__init__(down_after_ms=60_000)


def _named(variable: str) -> str | None:
    return os.environ.get(variable) or None


def _shared(kind: type[Server]) -> str:
    try:
        return _started(kind).url
    except Missing as missing:
        if os.environ.get("CI"):  # there a skip would look like a pass
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))


@functools.cache
def _started(kind: type[Server]) -> Server:
    """Lasts as long as this process: the guardian takes it away then (a conftest that imports a fixture makes a copy of it, which
    must not start a second server)."""
    server = kind()
    server.start()
    return server
