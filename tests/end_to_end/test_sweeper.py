"""What came apart comes together again: every kind of drift, made on purpose, on the real stores (P26, P37)."""

from typing import Any

import numpy as np
import pytest
from prometheus_client import REGISTRY
from sqlalchemy import delete

from memory.encoding import Vector
from memory.ids import MemoryId, TenantId, UserId
from memory.scope import system_scope
from storage.index.blind import PlainEntry
from storage.records.schema import dirty
from tests.end_to_end.harness import Strata, Talk

pytestmark = pytest.mark.model
SHOP = TenantId("shop")
OF_SHOP, OF_USER = system_scope(SHOP), system_scope(SHOP, UserId("wei"))


def healed(what: str) -> float:
    return REGISTRY.get_sample_value("strata_index_healed_total", {"what": what}) or 0.0


def vector(strata: Strata) -> Vector:
    dimension = strata.services.index._backend._dimension  # type: ignore[attr-defined]
    return np.eye(1, dimension, dtype=np.float32)[0]


async def put(strata: Strata, memory_id: str, version: int) -> None:
    """An entry that some worker wrote behind everybody's back."""
    entry = PlainEntry(MemoryId(memory_id), version, vector(strata), ("tea",))
    await strata.services.index.upsert(OF_USER, [entry])


async def indexed(strata: Strata) -> dict[str, int]:
    entries = (await strata.services.index.walk(OF_SHOP, None, 1000)).entries
    return {str(memory_id): version for memory_id, version in entries}


async def sweep(strata: Strata) -> None:
    """Two rounds of both walks, and whatever the Curator then finds to do."""
    for _ in range(6):
        await strata.workers.sweeper.step()
    await strata.settle()


async def forget_waiting(strata: Strata) -> None:
    """The mark is lost: a database restored from a backup, say."""
    await strata.services.records._database.write(lambda connection: connection.execute(delete(dirty)))  # type: ignore[attr-defined]


@pytest.fixture
async def talk(strata: Strata, shop: Any) -> Talk:
    """Two entries, both in the index."""
    opened: Talk = await shop.open("wei")
    await opened.say("我对芒果过敏。", "I like chess.")
    await strata.settle()
    assert len(await indexed(strata)) == 2
    return opened


async def test_all_well_is_left_alone(strata, talk):
    before, kinds = await indexed(strata), ("missing", "orphan", "undead", "stale", "ahead", "partition")
    counted = [healed(kind) for kind in kinds]
    await sweep(strata)
    assert await indexed(strata) == before
    assert [healed(kind) for kind in kinds] == counted
    assert REGISTRY.get_sample_value("strata_index_backlog") == 0


async def test_p26_an_orphan_goes(strata, talk):
    before, counted = await indexed(strata), healed("orphan")
    await put(strata, "m-orphan", 1)
    await sweep(strata)
    assert await indexed(strata) == before
    assert healed("orphan") == counted + 1


async def test_p37_what_is_missing_is_brought_back(strata, talk):
    before, counted = await indexed(strata), healed("missing")
    await strata.services.index.remove(OF_SHOP, [MemoryId(next(iter(before)))])
    await sweep(strata)
    assert await indexed(strata) == before
    assert healed("missing") == counted + 1
    assert any("芒果" in hit["content"] for hit in await talk.search("芒果"))


async def test_p26_the_undead_are_buried_by_the_ordinary_path(strata, talk):
    (entry,) = [memory for memory in await talk.memories() if "芒果" in memory["content"]]
    counted = healed("undead")
    receipt = await talk.call("DELETE", f"/v1/memories/{entry['id']}")
    await forget_waiting(strata)
    assert entry["id"] in await indexed(strata)
    await sweep(strata)
    assert entry["id"] not in await indexed(strata)
    assert healed("undead") == counted + 1
    done = await strata.receipt(receipt["id"], talk.token)  # its receipt is not forgotten either
    assert {name: one["after"] for name, one in done["stores"].items()} == {"records": 0, "index": 0}
    assert await strata.services.records.rows_of(OF_SHOP, [MemoryId(entry["id"])]) == []


@pytest.mark.parametrize(("version", "kind"), [(1, "stale"), (9, "ahead")])
async def test_another_version_than_the_rows_is_replaced(strata, talk, version, kind):
    entry = (await talk.memories())[0]
    await talk.call("PATCH", f"/v1/memories/{entry['id']}", json={"content": "I like backgammon."})
    await strata.settle()
    await strata.services.index.remove(OF_SHOP, [MemoryId(entry["id"])])
    await put(strata, entry["id"], version)
    counted = healed(kind)
    await sweep(strata)
    assert (await indexed(strata))[entry["id"]] == 2
    assert healed(kind) == counted + 1
    assert any("backgammon" in hit["content"] for hit in await talk.search("Do I like backgammon?"))


async def test_a_dropped_partition_of_a_living_tenant_is_filled_again(strata, talk):
    before, missing = await indexed(strata), healed("missing")
    await strata.services.index.drop_tenant(OF_SHOP)
    assert await indexed(strata) == {}
    await sweep(strata)
    assert await indexed(strata) == before
    assert healed("missing") == missing + len(before)


async def test_the_partition_of_a_tenant_that_is_gone_is_dropped_when_two_rounds_saw_it(strata, talk):
    ghost, counted = system_scope(TenantId("ghost")), healed("partition")
    await strata.services.index.ensure_tenant(ghost)
    await strata.workers.sweeper._begin_round()
    assert await strata.services.index.tenants(system_scope()) >= {"ghost", "shop"}  # it may just be being declared
    await strata.workers.sweeper._begin_round()
    assert await strata.services.index.tenants(system_scope()) == {"shop"}
    assert healed("partition") == counted + 1


async def test_records_without_tenants_drop_nothing(strata, talk):
    """Somebody started on the wrong database: that must not cost the index."""
    strangers = {TenantId("shop")}
    for _ in range(3):
        await strata.workers.sweeper._drop_strangers(set())
    assert await strata.services.index.tenants(system_scope()) == strangers


async def test_a_walk_goes_on_where_it_was_and_takes_in_what_comes(strata, shop):
    talk = await shop.open("wei")
    await talk.say(
        *(f"My locker number is {number}." for number in (7,)), "I like tea.", "I like chess.", "我住在北京。"
    )
    await strata.settle()
    sweeper = strata.workers.sweeper
    sweeper._settings = sweeper._settings.model_copy(update={"sweep_page": 1, "sweep_rest_s": 3600.0})
    before = await indexed(strata)
    await strata.services.index.remove(OF_SHOP, [MemoryId(max(before))])
    await put(strata, "zz-orphan", 1)  # the last of the index's walk, whatever its order by id
    for _ in range(2 * len(before) + 4):
        await sweeper.step()
    await strata.settle()
    assert await indexed(strata) == before
    assert SHOP in sweeper._rested  # and then it rests
