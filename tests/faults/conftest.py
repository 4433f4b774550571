"""What every fault is made on: a home, and a database of one's own on each server."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.sessions import valkey_server
from tests.faults.model import prepared_model
from tests.faults.places import own_database
from tests.faults.world import Place

ALL = os.environ.get("STRATA_FAULTS") == "all"
"""Everything on every database; otherwise a lean choice on the servers."""


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared_model(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def shared_home() -> Iterator[Path]:
    """A home for a module's tests, each of which has tenants of its own. Short: it holds a socket."""
    folder = Path(tempfile.mkdtemp(prefix="st-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module", params=["sqlite", "mariadb", "mysql"])
def place(request: pytest.FixtureRequest, shared_home: Path, tiny: Path) -> Iterator[Place]:
    """On each database: the stores of a module's tests."""
    server = None if request.param == "sqlite" else request.getfixturevalue(request.param)
    with own_database(server) as url:
        yield Place(shared_home / request.param, tiny, url)
        valkey_server.stop(shared_home / request.param)
