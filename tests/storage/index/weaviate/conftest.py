"""A server for these tests: the real one that the environment names, or the stand-in."""

from collections.abc import AsyncIterator, Iterator

import pytest

from storage.index.weaviate.settings import WeaviateSettings
from tests.standin.running import standin
from tests.storage.index.weaviate.backends import REAL, settings_of, wipe


@pytest.fixture(scope="session")
def weaviate() -> Iterator[str]:
    """Its address, as STRATA_TEST_WEAVIATE gives it."""
    if REAL:
        yield REAL
        return
    with standin() as address:
        yield address


@pytest.fixture
async def settings(weaviate: str) -> AsyncIterator[WeaviateSettings]:
    """With a prefix of this test's own; what it made is dropped."""
    made = settings_of(weaviate)
    yield made
    await wipe(made)
