"""The edge over real stores, one Valkey and one database file for the whole run, fresh tenants for each test."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.servers import tenant, valkey

if TYPE_CHECKING:
    from tests.deployments.edge.world import World

__all__ = ["tenant", "valkey"]


@pytest.fixture(scope="session")
def records_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    from storage.records import migrate

    url = f"sqlite+aiosqlite:///{tmp_path_factory.mktemp('edge')}/records.db"
    migrate(url)
    return url


@pytest_asyncio.fixture
async def world(valkey: str, records_url: str, tmp_path: Path, tenant: str) -> AsyncIterator["World"]:
    from tests.deployments.edge.world import opened

    async with opened(valkey, records_url, tmp_path, tenant) as world:
        yield world
