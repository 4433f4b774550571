"""Three real nodes, three copies: one is killed and comes back while entries are written, deleted and a user is erased."""

import asyncio
import time

import httpx
import pytest

from memory.errors import StrataError, Unavailable
from memory.ids import MemoryId, UserRef
from storage.index.weaviate.objects import object_id
from storage.index.weaviate.placements import Places, everything_shared
from tests.contract.index_backends import TENANT, asking, scope, sealed, unit
from tests.servers import weaviate_nodes
from tests.servers.weaviate_nodes import HEALED_WITHIN_S, KILL, NODES, START, shell
from tests.storage.index.weaviate.backends import MODEL, opened, settings_of, wipe

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.timeout(900),
    weaviate_nodes.needed,
]


async def until_done(call, within_s=HEALED_WITHIN_S):
    """As the workers do it: an error is a reason to come back."""
    until = time.monotonic() + within_s
    while True:
        try:
            return await call()
        except StrataError:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(1)


class Cluster:
    """What every node says by itself."""

    def __init__(self, rest: httpx.AsyncClient, collection: str) -> None:
        self.rest, self.collection = rest, collection

    async def nodes(self) -> list[str]:
        return [node["name"] for node in (await self.rest.get("/nodes")).json()["nodes"]]

    async def holders(self, ids) -> dict[str, set[str]]:
        """By node, who of `ids` it has."""
        found: dict[str, set[str]] = {}
        for node in await self.nodes():
            found[node] = set()
            for one in ids:
                answer = await self.rest.get(
                    f"/objects/{self.collection}/{object_id(TENANT, MemoryId(one))}",
                    params={"tenant": TENANT, "node_name": node},
                )
                assert answer.status_code in (200, 404), node
                if answer.status_code == 200:
                    found[node].add(one)
        return found


async def test_i3_p26_a_node_that_was_away_brings_nothing_back():
    settings = settings_of(NODES[0], replication_factor=3)
    collection = Places(settings.collection, MODEL, everything_shared).shared
    async with (
        httpx.AsyncClient(base_url=f"{settings.http}/v1", timeout=30, trust_env=False) as rest,
        opened(settings) as index,
    ):
        cluster = Cluster(rest, collection)
        await index.check()
        await index.ensure_tenant(scope())
        vectors = unit(120)
        first = [f"m{n}" for n in range(60)]
        erased = [f"gone{n}" for n in range(20)]
        await index.upsert(scope(), [sealed(one, vectors[n], "tea") for n, one in enumerate(first)])
        await index.upsert(scope(), [sealed(one, vectors[60 + n], "tea", user="u_2") for n, one in enumerate(erased)])
        assert await cluster.nodes() and all(
            len(held) == 80 for held in (await cluster.holders(first + erased)).values()
        )

        await shell(KILL)
        started = False
        try:
            # writes are taken by the two that are left
            later = [f"late{n}" for n in range(20)]
            await until_done(
                lambda: index.upsert(scope(), [sealed(one, vectors[80 + n], "tea") for n, one in enumerate(later)])
            )
            changed = first[:10]
            await until_done(
                lambda: index.upsert(
                    scope(), [sealed(one, vectors[100 + n], "coffee", version=2) for n, one in enumerate(changed)]
                )
            )
            # deletions are not called done by anything while a copy is away: neither now nor when the cluster has given it up
            deleted = first[20:40] + later[:5]
            until = time.monotonic() + 20
            while time.monotonic() < until:
                with pytest.raises(Unavailable):
                    await index.remove(scope(), deleted)
                with pytest.raises(Unavailable):
                    await index.remaining(scope(), deleted)
                with pytest.raises(Unavailable):
                    await index.remove_user(scope(), UserRef("u_2"))
                with pytest.raises(Unavailable):
                    await index.count(scope(), UserRef("u_2"))
                await asyncio.sleep(1)
            hits = await index.search(scope(), asking(vectors[0], "tea"), 100, 100)
            assert hits and not {hit.id for hit in hits} & set(deleted)  # the copies that are there are rid of them
            await shell(START)
            started = True
        finally:
            if not started:
                await shell(START)

        # the node is back: what was pending is done now, and shown by name
        await until_done(lambda: index.remove(scope(), deleted))
        await until_done(lambda: index.remove(scope(), erased))
        await until_done(lambda: index.remove_user(scope(), UserRef("u_2")))
        assert await until_done(lambda: index.remaining(scope(), deleted + erased)) == set()
        assert await until_done(lambda: index.count(scope(), UserRef("u_2"))) == 0
        assert all(not held for held in (await cluster.holders(deleted + erased)).values())

        # once the returned node has what was written meanwhile, the copies have compared themselves: still nothing is back
        kept = set(first + later) - set(deleted)
        until = time.monotonic() + HEALED_WITHIN_S
        while any(held != kept for held in (await cluster.holders(kept)).values()):
            assert time.monotonic() < until, "the returned node was not brought up to date"
            await asyncio.sleep(2)
        assert len(await cluster.nodes()) == 3
        assert all(not held for held in (await cluster.holders(deleted + erased)).values())
        assert await until_done(lambda: index.count(scope(), None)) == len(kept)
        assert await index.versions(scope(), changed) == dict.fromkeys(changed, 2)
        await index.drop_tenant(scope())
    await wipe(settings)
