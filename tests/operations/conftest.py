"""A Strata that learns within a moment what the records say of tenants, versions and placements, on either tier."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from deployments.in_process import InProcessEmbedder
from deployments.inference_client import EmbeddingModel
from memory.errors import Unavailable
from tests.end_to_end.conftest import database, production, weaviate  # noqa: F401 - fixtures
from tests.end_to_end.harness import Strata, Tenant
from tests.end_to_end.harness import strata as opened
from tests.end_to_end.tiers import Settings
from tests.operations.turned import Turned

POLL_S = 0.05
BOTH = pytest.mark.parametrize("tier", ["embedded", "production"], indirect=True)
PRODUCTION = pytest.mark.parametrize("tier", ["production"], indirect=True)


@pytest.fixture
def tier(request: pytest.FixtureRequest) -> Settings:
    """The embedded one, unless a test asks for another."""
    return request.getfixturevalue("production") if getattr(request, "param", "embedded") == "production" else {}


@pytest.fixture
async def strata(home: Path, encoder: object, tier: Settings) -> AsyncIterator[Strata]:
    embedder = InProcessEmbedder(encoder)  # type: ignore[arg-type]
    async with opened(home, embedder, policy_poll_s=POLL_S, **tier) as running:
        yield running
    await embedder.close()


def beside(strata: Strata, embedder: EmbeddingModel) -> AbstractAsyncContextManager[Strata]:
    """Another replica on the same stores."""
    same = {name: getattr(strata.settings, name) for name in ("sessions_url", "records_url", "index", "secrets")}
    return opened(strata.settings.home, embedder, policy_poll_s=POLL_S, **same)


@pytest.fixture
async def turned(encoder: object) -> AsyncIterator[Turned]:
    embedder = Turned(encoder)  # type: ignore[arg-type]
    yield embedder
    await embedder.close()


@pytest.fixture
async def shop(strata: Strata) -> Tenant:
    return await strata.tenant("shop")


async def until(true: Callable[[], bool]) -> None:
    """What a poll brings about; it fails the test after two minutes. An index that is just being opened is Unavailable."""
    async with asyncio.timeout(120):
        while True:
            with contextlib.suppress(Unavailable):
                if true():
                    return
            await asyncio.sleep(0.01)
