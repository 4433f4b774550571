"""A tenant moves between its shard and a collection of its own while it is read and written; a move that was cut off goes on."""

import pytest

from deployments.cli import moves
from deployments.doctor.examination import _places
from deployments.indexes import OpenIndex, open_index
from deployments.moving import move
from deployments.stores import Stores, open_stores
from memory.ids import TenantId
from memory.policy import Isolation, Policy
from memory.scope import system_scope
from storage.protocols import Placement
from tests.end_to_end.harness import Strata, Talk, Tenant
from tests.faults.audit import audit
from tests.operations.conftest import POLL_S, PRODUCTION

pytestmark = pytest.mark.model

SHOP = system_scope(TenantId("shop"))
SETTLE_S = 10 * POLL_S
FACTS = ("我对花生过敏。", "I live in Berlin.", "My favourite colour is green.", "我养了一只猫。")


class Cut(Exception):
    pass


async def own_index(stores: Stores, strata: Strata) -> OpenIndex:
    card = await strata.services.embedder.card()
    return await open_index(strata.settings, stores.versions, stores.keys, card.key, card.dimension)


async def moved(strata: Strata, target: Isolation, meanwhile=None, cut_at: str = "") -> bool:
    """`meanwhile(stage)` runs between two steps; a move is cut off when it comes to `cut_at`."""
    stages: list[str] = []

    def watch(stage: str, done: int, total: int) -> None:
        stages.append(stage)
        if stage == cut_at:
            raise Cut

    async with open_stores(strata.settings) as stores:
        opened = await own_index(stores, strata)
        watched = Watched(opened.backend, meanwhile)
        try:
            return await move(stores.versions, watched, opened.model_key, TenantId("shop"), target, SETTLE_S, watch)
        finally:
            await opened.index.aclose()


class Watched:
    """The real index; `meanwhile` is awaited before its entries are copied and before the old place is dropped."""

    def __init__(self, index, meanwhile) -> None:
        self._index, self._meanwhile = index, meanwhile

    def __getattr__(self, name):
        call = getattr(self._index, name)

        async def run(*args):
            if self._meanwhile is not None and name in ("copy_tenant", "drop_place"):
                await self._meanwhile(name)
            return await call(*args)

        return run


async def known(shop: Tenant) -> Talk:
    talk = await shop.open("wei")
    for fact in FACTS:
        await talk.say(fact)
    await shop.strata.settle()
    return talk


@PRODUCTION
async def test_a_tenant_moves_while_it_is_written_and_read(strata: Strata, shop: Tenant):
    talk = await known(shop)
    other = await (await strata.tenant("books")).open("li")
    await other.say("我喜欢科幻小说。")
    ids = {memory["content"]: memory["id"] for memory in await talk.memories()}
    doomed = next(one for content, one in ids.items() if "green" in content)

    async def meanwhile(call: str) -> None:
        assert "用户对花生过敏" in await talk.recalled("我能吃花生酱吗？")
        if call == "copy_tenant":
            await talk.say("I play the violin.")
            answer = await shop.call("DELETE", f"/v1/memories/{doomed}", params={"user_id": "wei"})
            assert answer.status_code == 202
        else:
            await talk.say("我会弹钢琴。")
        await strata.settle()

    assert await moved(strata, Isolation.COLLECTION, meanwhile)
    async with open_stores(strata.settings) as stores:
        opened = await own_index(stores, strata)
        assert await opened.backend.places_of(SHOP) == {"collection"}
        assert await opened.index.remaining(SHOP, [doomed]) == set()
        await opened.index.aclose()
    await strata.settle()
    for tenant in ("shop", "books"):
        assert not (await audit(strata, tenant)).faults
    for question, word in (
        ("我能吃花生酱吗？", "花生"),
        ("我会弹什么琴？", "钢琴"),
        ("Which instrument do I play?", "violin"),
    ):
        assert any(word in content for content in await talk.recalled(question))
    assert not await moved(strata, Isolation.COLLECTION)  # it is there already
    assert await moved(strata, Isolation.SHARD)
    assert "用户对花生过敏" in await talk.recalled("我能吃花生酱吗？")
    assert not (await audit(strata, "shop")).faults


@PRODUCTION
@pytest.mark.parametrize(
    "stage", ["writing to both places", "copying", "reading from the new place", "leaving the old place"]
)
async def test_a_move_that_was_cut_off_goes_on(strata: Strata, shop: Tenant, stage: str):
    talk = await known(shop)
    with pytest.raises(Cut):
        await moved(strata, Isolation.COLLECTION, cut_at=stage)
    await talk.say("I play the violin.")
    await strata.settle()
    assert "用户对花生过敏" in await talk.recalled("我能吃花生酱吗？")
    assert await moved(strata, Isolation.COLLECTION)
    await strata.settle()
    assert not (await audit(strata, "shop")).faults
    assert len(await talk.recalled("Which instrument do I play?")) >= 1


@PRODUCTION
async def test_a_new_tenant_begins_where_its_policy_wants_it(strata: Strata):
    async with open_stores(strata.settings) as stores:
        await stores.versions.place(SHOP, (await strata.services.embedder.card()).key, Placement("collection"))
    shop = await strata.tenant("shop", Policy(isolation=Isolation.COLLECTION))
    await known(shop)
    async with open_stores(strata.settings) as stores:
        opened = await own_index(stores, strata)
        tenants = await stores.tenants.tenants(system_scope())
        assert await opened.backend.places_of(SHOP) == {"collection"}
        assert await _places(opened, tenants) == []
        await opened.backend.ensure_place(SHOP, "shard")  # as a worker that slept through a move may do
        assert [finding.part for finding in await _places(opened, tenants)] == ["isolation.shop"]
        await opened.index.aclose()
    assert await moved(strata, Isolation.COLLECTION)


def test_on_the_embedded_tier_there_is_nothing_to_move(capsys, tmp_path, monkeypatch):
    from rich.console import Console

    from deployments.cli.main import LOCAL

    monkeypatch.setenv("STRATA_HOME", str(tmp_path))
    assert moves.run(LOCAL, "demo", Isolation.COLLECTION, Console(width=200)) == 0
    assert "nothing to move" in capsys.readouterr().out
