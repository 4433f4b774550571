"""Who sleeps, and that sleeping changes nothing but the server's burden."""

import asyncio
import time

import pytest
from prometheus_client import REGISTRY

from memory.ids import TenantId
from memory.scope import system_scope
from storage.index.weaviate import tenants
from storage.index.weaviate.index import WeaviateIndex
from storage.index.weaviate.placements import Place
from tests.contract.index_backends import asking, ids_of, scope, sealed, unit
from tests.storage.index.weaviate.backends import opened

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize(
    ("last_used", "cap", "sleepers"),
    [
        ({}, 10, []),
        ({"a": 0, "b": 99}, 10, ["a"]),  # idle for 100 s, in use
        ({"a": 41, "b": 40}, 10, ["b"]),  # exactly idle_s
        ({"a": 99, "b": 98, "c": 97}, 2, ["c"]),  # none idle, one too many: the least recently used
        ({"a": 99, "b": 0, "c": 1}, 2, ["b", "c"]),
        ({"a": 99, "b": 99, "c": 99}, 1, ["a", "b"]),  # equally long: by name, so that two passes agree
    ],
)
async def test_who_is_put_to_sleep(last_used, cap, sleepers):
    places = {Place("X", TenantId(name)): float(at) for name, at in last_used.items()}
    assert [place.tenant for place in tenants.victims(places, 100.0, 60.0, cap)] == sleepers


async def awake(index: WeaviateIndex) -> set[str]:
    there = await index._connection.run(lambda client: tenants.awake_in(client, index._places.shared))
    return {place.tenant for place in there}


def metric(index: WeaviateIndex) -> float | None:
    return REGISTRY.get_sample_value("strata_weaviate_active_tenants", {"collection": index._places.shared})


async def fill(index: WeaviateIndex, count: int) -> None:
    for n in range(count):
        await index.ensure_tenant(scope(tenant=f"t{n}"))
        await index.upsert(scope(tenant=f"t{n}"), [sealed("m1", unit(1)[0], "tea")])


async def test_beyond_the_cap_the_least_recently_used_sleep(settings):
    async with opened(settings.model_copy(update={"active_tenants": 3})) as index:
        await fill(index, 6)
        await index.count(scope(tenant="t0"), None)  # used again
        until = time.monotonic() + 30
        while len(await awake(index)) > 3:  # by itself
            assert time.monotonic() < until
            await asyncio.sleep(0.05)
        await index.put_idle_to_sleep()
        assert metric(index) == len(await awake(index)) <= 3
        assert "t0" in await awake(index)
        for n in range(6):  # and each of them answers as ever
            assert await ids_of(index, scope(tenant=f"t{n}")) == ["m1"]


async def test_idle_ones_sleep_and_wake_by_every_kind_of_call(settings):
    (vector,) = unit(1)
    async with opened(settings.model_copy(update={"idle_s": 3_600.0})) as patient:
        calls = [
            lambda whose: patient.search(whose, asking(vector, "tea"), 5, 5),
            lambda whose: patient.upsert(whose, [sealed("m2", vector, "tea")]),
            lambda whose: patient.remove(whose, ["m2"]),
            lambda whose: patient.remaining(whose, ["m1"]),
            lambda whose: patient.versions(whose, ["m1"]),
            lambda whose: patient.walk(whose, None, 5),
            lambda whose: patient.count(whose, None),
        ]
        await fill(patient, len(calls))
        async with opened(settings.model_copy(update={"idle_s": 0.000001})) as hasty:
            assert await awake(patient) == {f"t{n}" for n in range(len(calls))}
            assert await hasty.put_idle_to_sleep() == 0  # seen awake for the first time
            assert await hasty.put_idle_to_sleep() == len(calls)
            assert await awake(patient) == set() and metric(hasty) == 0
            assert await hasty.put_idle_to_sleep() == 0
        for n, call in enumerate(calls):
            await call(scope(tenant=f"t{n}"))
        assert await awake(patient) == {f"t{n}" for n in range(len(calls))}
        assert await patient.put_idle_to_sleep() == 0  # none of them idle for an hour
        assert metric(patient) == len(calls)


async def test_a_collection_of_ones_own_stays_awake(settings):
    async with (
        opened(settings) as index,
        opened(
            settings.model_copy(update={"idle_s": 0.000001})
        ) as hasty,  # has no task: it is never asked for a tenant
    ):
        await fill(index, 2)
        await index.ensure_place(system_scope(TenantId("t0")), "collection")
        assert await hasty.put_idle_to_sleep() == 0
        assert await hasty.put_idle_to_sleep() == 2
        assert await awake(index) == set() and metric(index) == 0
        own = index._places.own(TenantId("t0"))
        assert REGISTRY.get_sample_value("strata_weaviate_active_tenants", {"collection": own}) == 1


async def test_a_sleeping_tenant_is_listed_made_again_and_dropped(settings):
    async with opened(settings.model_copy(update={"idle_s": 0.000001})) as index:
        await fill(index, 2)
        await index.put_idle_to_sleep()
        assert await index.tenants(system_scope()) == {"t0", "t1"}
        await index.ensure_tenant(scope(tenant="t0"))
        assert await ids_of(index, scope(tenant="t0")) == ["m1"]
        await index.put_idle_to_sleep()
        await index.drop_tenant(scope(tenant="t0"))
        assert await index.tenants(system_scope()) == {"t1"}
        await index.ensure_tenant(scope(tenant="t0"))
        assert await ids_of(index, scope(tenant="t0")) == []


async def test_falling_asleep_under_traffic_loses_nothing(settings):
    """A replica that thinks everybody idle, against one that writes and reads all the time."""
    vectors = unit(60)
    async with (
        opened(settings) as busy,
        opened(settings.model_copy(update={"idle_s": 0.000001})) as hasty,
    ):
        await busy.ensure_tenant(scope())

        async def write() -> None:
            for n in range(60):
                await busy.upsert(scope(), [sealed(f"m{n}", vectors[n], "tea")])
                hits = await busy.search(scope(), asking(vectors[n]), 1, 0)
                assert [hit.id for hit in hits] == [f"m{n}"]

        writing = asyncio.create_task(write())
        while not writing.done():
            await hasty.put_idle_to_sleep()
            await asyncio.sleep(0.01)
        await writing
        assert len(await ids_of(busy, scope())) == 60
