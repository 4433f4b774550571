"""One Strata for each test, in a home of its own; the encoder is loaded once."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.servers import home

__all__ = ["home"]


@pytest.fixture
async def strata(home: Path, encoder: "object") -> AsyncIterator["object"]:
    from deployments.in_process import InProcessEmbedder
    from tests.end_to_end.harness import strata as opened

    embedder = InProcessEmbedder(encoder)  # type: ignore[arg-type]
    async with opened(home, embedder) as running:
        yield running
    await embedder.close()


@pytest.fixture
async def shop(strata: "object") -> "object":
    return await strata.tenant("shop")  # type: ignore[attr-defined]
