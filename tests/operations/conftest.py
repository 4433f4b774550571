"""A Strata that learns within a moment what the records say of tenants, versions and placements."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from deployments.in_process import InProcessEmbedder
from tests.end_to_end.harness import Strata, Tenant
from tests.end_to_end.harness import strata as opened
from tests.operations.turned import Turned

POLL_S = 0.05


@pytest.fixture
async def strata(home: Path, encoder: object) -> AsyncIterator[Strata]:
    embedder = InProcessEmbedder(encoder)  # type: ignore[arg-type]
    async with opened(home, embedder, policy_poll_s=POLL_S) as running:
        yield running
    await embedder.close()


@pytest.fixture
async def turned(encoder: object) -> AsyncIterator[Turned]:
    embedder = Turned(encoder)  # type: ignore[arg-type]
    yield embedder
    await embedder.close()


@pytest.fixture
async def shop(strata: Strata) -> Tenant:
    return await strata.tenant("shop")


async def until(true: Callable[[], bool]) -> None:
    """What a poll brings about; it fails the test after a minute."""
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 - what a poll changes has no event
            await asyncio.sleep(0.01)
