"""P18: which model an index is of, what a start with another one does, and the way from one to the other while both answer."""

from dataclasses import replace

import pytest

from deployments.indexes import open_index, remove_index
from deployments.reindexing import Done, Reindexer, drop
from deployments.stores import open_stores
from memory.errors import ConfigError, Conflict
from memory.ids import TenantId
from memory.scope import system_scope
from storage.protocols import IndexVersion, VersionState
from tests.end_to_end.harness import Strata, Tenant
from tests.faults.audit import audit
from tests.operations.conftest import BOTH, beside, until
from tests.operations.turned import NAME, Turned

pytestmark = pytest.mark.model

SYSTEM, SHOP = system_scope(), system_scope(TenantId("shop"))
FACTS = (
    "我对花生过敏。",
    "I live in Berlin.",
    "I work as a nurse.",
    "我养了一只猫。",
    "My favourite colour is green.",
)


async def versions(strata: Strata) -> dict[str, IndexVersion]:
    async with open_stores(strata.settings) as stores:
        return {version.model_key: version for version in await stores.versions.versions(SYSTEM)}


async def states(strata: Strata) -> list[VersionState]:
    return sorted(version.state for version in (await versions(strata)).values())


async def reindex(strata: Strata, embedder: Turned, batch: int = 3) -> Done:
    card = await embedder.card()
    async with open_stores(strata.settings) as stores:
        opened = await open_index(strata.settings, stores.versions, stores.keys, card.key, card.dimension)
        sessions = strata.services.sessions
        try:
            run = Reindexer(
                stores.versions, stores.records, stores.tenants, sessions, opened.index, embedder, batch=batch
            )
            return await run.run()
        finally:
            await opened.index.aclose()


async def test_p18_the_first_start_makes_its_models_version_the_active_one(strata: Strata):
    card = await strata.services.embedder.card()
    found = await versions(strata)
    assert [*found] == [card.key]
    version = found[card.key]
    assert version.state is VersionState.ACTIVE
    assert version.dimension == card.dimension == 384
    for told in ("name", "query_prefix", "passage_prefix", "means_digest"):
        assert version.details[told] == getattr(card, told)


async def test_p18_another_model_stops_the_start_where_there_are_entries(strata: Strata, shop: Tenant, turned: Turned):
    talk = await shop.open("wei")
    await talk.say("我对花生过敏。")
    with pytest.raises(ConfigError, match=f"strata reindex --model {NAME}"):
        async with beside(strata, turned):
            pass
    assert await states(strata) == [VersionState.ACTIVE]


async def test_p18_without_an_entry_another_model_may_just_begin(strata: Strata, shop: Tenant, turned: Turned):
    async with beside(strata, turned) as other:
        assert (await versions(other))[(await turned.card()).key].state is VersionState.ACTIVE
        assert await states(other) == [VersionState.ACTIVE, VersionState.RETIRED]


@pytest.mark.parametrize(
    ("told", "other"), [("means_digest", "0" * 16), ("passage_prefix", "other: "), ("dimension", 768)]
)
async def test_p18_a_model_that_only_calls_itself_the_same_stops_the_start(strata: Strata, told: str, other: object):
    (version,) = (await versions(strata)).values()
    changed = replace(version, details={**version.details, told: other})
    async with open_stores(strata.settings) as stores:
        await stores.versions.put(SYSTEM, changed)
    with pytest.raises(ConfigError, match=told):
        async with beside(strata, strata.services.embedder):
            pass


@BOTH
async def test_p18_both_models_answer_and_nothing_is_lost_between_them(strata: Strata, shop: Tenant, turned: Turned):
    """Written, corrected and deleted before, during and after the making of the other index."""
    reader = await (await strata.tenant("books")).open("li")
    await reader.say("我喜欢科幻小说。")
    talk = await shop.open("wei")
    for fact in FACTS:
        await talk.say(fact)
    await strata.settle()
    ids = {memory["content"]: memory["id"] for memory in await talk.memories()}
    nurse, berlin, nuts = ids["The user works as a nurse."], ids["The user lives in Berlin."], ids["用户对花生过敏"]

    happened: list[int] = []

    async def meanwhile(call: int) -> None:
        """While the first entries are on their way from the records to the new index."""
        if happened:
            return
        happened.append(call)
        await until(lambda: len(strata.services.others()) == 1)
        await talk.say("I play the violin.")
        of_user = {"user_id": "wei"}
        moved = {**of_user, "content": "The user lives in Oslo."}
        assert (await shop.call("PATCH", f"/v1/memories/{berlin}", json=moved)).status_code == 200
        assert (await shop.call("DELETE", f"/v1/memories/{nurse}", params=of_user)).status_code == 202
        await strata.settle()

    turned.meanwhile = meanwhile
    done = await reindex(strata, turned)
    assert (happened, done.differing) == ([1], 0)
    assert await states(strata) == [VersionState.ACTIVE, VersionState.READY]
    assert not strata.services.retired()
    assert "用户对花生过敏" in await talk.recalled("我能吃花生酱吗？")
    await talk.say("我会弹钢琴。")  # after the last comparison, before the switch
    await strata.settle()

    async with beside(strata, turned) as new:
        await new.services.background.close(60)  # what came in between is marked
        await new.settle()
        for tenant in ("shop", "books"):
            found = await audit(new, tenant)
            assert (found.missing, found.orphans, found.undead, found.untokened) == (0, 0, 0, 0), found
        there = await Tenant(new, shop.id, shop.key).open("wei")
        assert "用户对花生过敏" in await there.recalled("我能吃花生酱吗？")
        assert any("Oslo" in content for content in await there.recalled("Where do I live?"))
        assert any("钢琴" in content for content in await there.recalled("我会弹什么琴？"))

        await until(strata.services.retired)
        assert "用户对花生过敏" in await talk.recalled(
            "我能吃花生酱吗？"
        )  # replicas that are not replaced yet answer on
        await talk.say("我住在二楼。")
        assert not await strata.curator.step()
        waiting = (await new.services.records.backlog(SYSTEM)).entries
        assert waiting  # but they leave the index to the others
        await new.settle()

        assert (await there.strata.call("DELETE", f"/v1/memories/{nuts}", there.token)).status_code == 202
        await new.settle()
        (old,) = new.services.others()
        for index in (new.services.index, old):
            assert await index.remaining(SHOP, [nuts, nurse]) == set()


async def test_p18_an_unfinished_reindex_is_no_index(strata: Strata, shop: Tenant, turned: Turned):
    talk = await shop.open("wei")
    for fact in FACTS:
        await talk.say(fact)

    async def stop(call: int) -> None:
        if call == 2:
            raise Conflict("stop here")

    turned.meanwhile = stop
    with pytest.raises(Conflict):
        await reindex(strata, turned, batch=2)
    (building,) = [one for one in (await versions(strata)).values() if one.state is VersionState.BUILDING]
    assert building.at is not None
    assert building.at[0] == "shop"
    with pytest.raises(ConfigError, match="not finished"):
        async with beside(strata, turned):
            pass

    turned.meanwhile = None
    done = await reindex(strata, turned, batch=2)
    assert done.written == len(FACTS) - 2  # it went on where it was
    assert await states(strata) == [VersionState.ACTIVE, VersionState.READY]


async def test_p18_a_retired_model_comes_back_by_what_changed_alone(strata: Strata, shop: Tenant, turned: Turned):
    talk = await shop.open("wei")
    for fact in FACTS:
        await talk.say(fact)
    await strata.settle()
    await reindex(strata, turned)
    async with beside(strata, turned) as new:
        there = await Tenant(new, shop.id, shop.key).open("wei")
        await there.say("I play the violin.")
        await new.settle()
    with pytest.raises(ConfigError, match="was retired"):
        async with beside(strata, strata.services.embedder):
            pass
    done = await reindex(strata, strata.services.embedder)  # type: ignore[arg-type]
    assert (done.written, done.removed) == (1, 0)
    async with beside(strata, strata.services.embedder) as back:
        assert not (await audit(back, "shop")).missing


@BOTH
async def test_p18_what_is_answered_from_is_not_dropped_and_what_is_not_goes_whole(
    strata: Strata, shop: Tenant, turned: Turned
):
    talk = await shop.open("wei")
    await talk.say(*FACTS)
    await strata.settle()
    await reindex(strata, turned)
    await until(lambda: len(strata.services.others()) == 1)
    active, other = (await strata.services.embedder.card()).key, (await turned.card()).key
    async with open_stores(strata.settings) as stores:
        with pytest.raises(ConfigError, match="answers from"):
            await drop(stores.versions, strata.services.index, active)
        found = await open_index(strata.settings, stores.versions, stores.keys, other, 384)
        assert await found.index.count(SHOP, None) == len(FACTS)
        assert await drop(stores.versions, found.index, other) == len(FACTS)
        assert await found.index.tenants(SYSTEM) == set()
        await remove_index(strata.settings, found)
    assert not (strata.settings.home / "index" / other).exists()
    assert [*await versions(strata)] == [active]
    await until(lambda: not strata.services.others())
    assert "用户对花生过敏" in await talk.recalled("我能吃花生酱吗？")
    assert not (await audit(strata, "shop")).faults
