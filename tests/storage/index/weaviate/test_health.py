"""A server that takes no write is not healthy, whatever it says itself."""

import time

import pytest

from memory.ids import TenantId
from memory.scope import system_scope
from storage.index.weaviate import tenants
from storage.index.weaviate.placements import Place
from tests.storage.index.weaviate.backends import opened

pytestmark = pytest.mark.asyncio


async def left(index) -> set[str]:
    return await index._connection.run(lambda client: tenants.tenants_in(client, index._health._collection))


async def test_a_ping_writes_and_leaves_nothing(settings):
    async with opened(settings) as index:
        await index.ping()
        await index.ping()
        assert await left(index) == set()
        assert await index.tenants(system_scope()) == set()  # it is none of the tenants


async def test_what_a_killed_ping_left_is_tidied_at_the_next_start(settings):
    async with opened(settings) as index:
        await index.ping()
        old, fresh = f"h{int(time.time()) - 3_600:x}-0a1b", f"h{int(time.time()):x}-0a1b"
        for name in (old, fresh):
            place = Place(index._health._collection, TenantId(name))
            await index._connection.run(lambda client, place=place: tenants.make(client, place))
        await index.check()
        assert await left(index) == {fresh}  # somebody else's may be under way
