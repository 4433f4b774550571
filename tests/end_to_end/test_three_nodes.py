"""All of Strata on three real Weaviate nodes, three copies: one is killed and comes back while users speak, delete and are erased."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from deployments.in_process import InProcessEmbedder
from memory.ids import MemoryId, TenantId
from memory.scope import Grant, system_scope
from storage.index.weaviate.objects import object_id
from tests.end_to_end import tiers
from tests.end_to_end.harness import Strata
from tests.end_to_end.harness import strata as opened
from tests.servers import weaviate_nodes
from tests.servers.weaviate_nodes import HEALED_WITHIN_S, KILL, NODES, START, shell

pytestmark = [
    pytest.mark.timeout(900),
    weaviate_nodes.needed,
]


@pytest.fixture
def three_copies(database: str, redis_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tiers.Settings]:
    """configs/production.yaml with three copies."""
    stores = tiers.production(tiers.empty_sessions(redis_server), tiers.emptied(database), NODES[0], monkeypatch)
    stores["index"] = stores["index"].model_copy(update={"replication_factor": 3})
    yield stores
    tiers.drop_collections(NODES[0], stores["index"].collection)


@pytest.fixture
async def replicated(home: Path, encoder: Any, three_copies: tiers.Settings) -> AsyncIterator[Strata]:
    embedder = InProcessEmbedder(encoder)
    async with opened(home, embedder, **three_copies) as running:
        yield running
    await embedder.close()


class Copies:
    """What each node holds, asked by name."""

    def __init__(self, rest: httpx.AsyncClient, strata: Strata, tenant: str) -> None:
        self.rest, self.tenant = rest, TenantId(tenant)
        self.prefix = strata.settings.index.collection  # type: ignore[union-attr]

    async def of(self, ids: Sequence[str]) -> dict[str, set[str]]:
        classes = [made["class"] for made in (await self.rest.get("/schema")).json()["classes"]]
        (collection,) = [name for name in classes if name.startswith(f"{self.prefix}_") and "Health" not in name]
        held: dict[str, set[str]] = {}
        for node in [node["name"] for node in (await self.rest.get("/nodes")).json()["nodes"]]:
            held[node] = set()
            for one in ids:
                path = f"/objects/{collection}/{object_id(self.tenant, MemoryId(one))}"
                answer = await self.rest.get(path, params={"tenant": self.tenant, "node_name": node})
                assert answer.status_code in (200, 404), node
                if answer.status_code == 200:
                    held[node].add(one)
        return held


async def work(strata: Strata, seconds: float) -> None:
    """What the workers do, for so long: most of it fails while a copy is away, and is put off."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        await strata.curator.step()
        await strata.workers.eraser.step()
        await asyncio.sleep(0.2)


async def test_i3_p25_p26_receipts_wait_for_the_copy_that_is_away(replicated: Strata) -> None:
    strata = replicated
    shop = await strata.tenant("shop", grants=frozenset({Grant.MEMORY, Grant.ADMIN}))
    alice, bob = await shop.open("alice"), await shop.open("bob")
    await alice.say("我对青霉素过敏。", "I live in Leeds.", "I like jazz.")
    await bob.say("我住在武汉。", "I am allergic to walnuts.")
    await strata.settle()
    before = [memory["id"] for memory in await alice.memories()]
    (penicillin,) = [memory["id"] for memory in await alice.memories() if "青霉素" in memory["content"]]
    bobs = [memory["id"] for memory in await bob.memories()]
    assert len(before) == 3 and len(bobs) == 2

    async with httpx.AsyncClient(base_url=f"{NODES[0].rpartition(',')[0]}/v1", timeout=30, trust_env=False) as rest:
        copies = Copies(rest, strata, shop.id)
        assert [len(held) for held in (await copies.of(before + bobs)).values()] == [5, 5, 5]
        await shell(KILL)
        started = False
        try:
            # what is said is kept, and found: by the index's two copies, or because it waits for it
            await alice.say("我喜欢下围棋。")
            await work(strata, 5)
            assert any("围棋" in content for content in await alice.recalled("我有什么爱好？下围棋吗？"))
            deleted = await alice.call("DELETE", f"/v1/memories/{penicillin}")
            erased = await shop.call("DELETE", "/v1/users/bob")
            assert erased.status_code == 202
            await work(strata, 15)
            # gone for every reader at once; but no receipt says so while a copy was not asked
            assert not any("青霉素" in content for content in await alice.recalled("我对什么药过敏？"))
            for receipt in (deleted["id"], erased.json()["id"]):
                answer = (await shop.call("GET", f"/v1/receipts/{receipt}")).json()
                assert answer["completed_at"] is None and answer["signature"] is None
            await shell(START)
            started = True
        finally:
            if not started:
                await shell(START)
        async with asyncio.timeout(HEALED_WITHIN_S):
            for receipt in (deleted["id"], erased.json()["id"]):
                while (await shop.call("GET", f"/v1/receipts/{receipt}")).json()["completed_at"] is None:
                    await work(strata, 1)
        gone = [penicillin, *bobs]
        assert all(not held for held in (await copies.of(gone)).values())
        # once the returned node has what was written meanwhile, the copies have compared themselves: nothing is back
        kept = {memory["id"] for memory in await alice.memories()}
        async with asyncio.timeout(HEALED_WITHIN_S):
            while any(held != kept for held in (await copies.of(sorted(kept))).values()):
                await work(strata, 2)
        assert len(await copies.of([])) == 3
        assert all(not held for held in (await copies.of(gone)).values())
        assert (await strata.services.records.backlog(system_scope())).entries == 0
