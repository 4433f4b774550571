"""Real servers for tests, each its own, in a folder that goes afterwards. Import the fixtures into a conftest or a test module."""

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.sessions import valkey_server


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
