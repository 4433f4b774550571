"""One Strata for each test and tier, in a home of its own; the encoder is loaded once."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end import tiers


@pytest.fixture(scope="session")
def weaviate() -> Iterator[str]:
    """As STRATA_TEST_WEAVIATE gives a server's address."""
    with tiers.weaviate_server() as address:
        yield address


@pytest.fixture(scope="session")
def database(request: pytest.FixtureRequest) -> Iterator[str]:
    """MariaDB, or MySQL where STRATA_TEST_MYSQL names one."""
    server = request.getfixturevalue("mysql" if os.environ.get("STRATA_TEST_MYSQL") else "mariadb")
    with tiers.own_database(server) as url:
        yield url


@pytest.fixture
def production(
    database: str, redis_server: str, weaviate: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tiers.Settings]:
    """Redis, MySQL or MariaDB, and Weaviate, as configs/production.yaml names them; nothing in them yet."""
    sessions_url, records_url = tiers.empty_sessions(redis_server), tiers.emptied(database)
    settings = tiers.production(sessions_url, records_url, weaviate, monkeypatch)
    yield settings
    tiers.drop_collections(weaviate, settings["index"].collection)


@pytest.fixture(params=["embedded", "production"])
def tier(request: pytest.FixtureRequest) -> tiers.Settings:
    """Settings of the stores: files and a bundled server, or servers."""
    return {} if request.param == "embedded" else request.getfixturevalue("production")


@pytest.fixture
async def strata(home: Path, encoder: Any, tier: tiers.Settings) -> AsyncIterator[Any]:
    from deployments.in_process import InProcessEmbedder
    from tests.end_to_end.harness import strata as opened

    embedder = InProcessEmbedder(encoder)
    async with opened(home, embedder, **tier) as running:
        yield running
    await embedder.close()


@pytest.fixture
async def shop(strata: Any) -> Any:
    return await strata.tenant("shop")
