"""A server for these tests: the real one that the environment names, or the stand-in."""

from collections.abc import AsyncIterator

import pytest

from storage.index.weaviate.settings import WeaviateSettings
from tests.standin.running import weaviate_address
from tests.storage.index.weaviate.backends import settings_of, wipe


@pytest.fixture(scope="session")
def weaviate() -> str:
    """Its address, as STRATA_TEST_WEAVIATE gives it."""
    return weaviate_address()


@pytest.fixture
async def settings(weaviate: str) -> AsyncIterator[WeaviateSettings]:
    """With a prefix of this test's own; what it made is dropped."""
    made = settings_of(weaviate)
    yield made
    await wipe(made)
