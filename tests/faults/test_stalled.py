"""Workers that stop in the middle, past their lease, and go on as if nothing had been: what they write late is found and removed (P26)."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator

import pytest

from deployments.flows.erasing import erase_tenant
from memory.ids import MemoryId, TenantId
from memory.scope import system_scope
from tests.end_to_end.harness import Tenant
from tests.faults import stories
from tests.faults.audit import audit, indexed
from tests.faults.processes import Child, run
from tests.faults.stories import USER, Told
from tests.faults.world import Place, World, fresh, opened


@pytest.fixture
async def world(place: Place) -> AsyncIterator[World]:
    async with opened(place) as world:
        yield world


async def _begun(place: Place) -> Told:
    (told,) = (await asyncio.to_thread(run, stories.begin, place, [fresh("t")])).value
    return told


def _stalled_before_its_write(place: Place, told: Told) -> Child:
    """A worker that holds an entry of this tenant and stands before its call of the index."""
    child = Child(stories.curate, place, told.tenant, "before index.upsert #1")
    try:
        child.wait_until_stopped()
    except BaseException:
        child.close()
        raise
    return child


async def _dirty(world: World, told: Told) -> MemoryId:
    """The first thing that is known of the user waits for the index again."""
    memory = MemoryId(told.memories[0])
    assert await world.strata.services.records.mark(system_scope(TenantId(told.tenant)), [memory]) == 1
    return memory


async def test_p26_a_worker_stalled_past_its_lease_that_writes_after_the_delete(place: Place, world: World):
    told = await _begun(place)
    memory = await _dirty(world, told)
    stalled = await asyncio.to_thread(_stalled_before_its_write, place, told)
    try:
        shop = Tenant(world.strata, told.tenant, told.key)
        answer = await shop.call("DELETE", f"/v1/memories/{memory}", params={"user_id": USER})
        assert answer.status_code == 202
        await _applied(world, told.tenant)
        assert memory not in await _held(world, told.tenant)
        stalled.send(signal.SIGCONT)
        assert (await asyncio.to_thread(stalled.end)).signal == 0
        assert memory in await _held(world, told.tenant)  # undead: this test can fail
    finally:
        stalled.close()
    await stories.drain(world)
    found = await audit(world.strata, told.tenant)
    assert not found.faults
    assert found.entries == found.rows == 3


async def test_p26_a_late_write_after_the_user_was_erased(place: Place, world: World):
    told = await _begun(place)
    memory = await _dirty(world, told)
    stalled = await asyncio.to_thread(_stalled_before_its_write, place, told)
    try:
        answer = await Tenant(world.strata, told.tenant, told.key).call("DELETE", f"/v1/users/{USER}")
        assert answer.status_code == 202
        await _applied(world, told.tenant)
        stalled.send(signal.SIGCONT)
        assert (await asyncio.to_thread(stalled.end)).signal == 0
    finally:
        stalled.close()
    await stories.drain(world)
    found = await audit(world.strata, told.tenant)
    assert not found.faults
    assert memory not in await _held(world, told.tenant)
    assert list(found.contents) == [stories.BYSTANDER]


async def test_p26_a_late_write_after_the_tenant_was_dropped_brings_nothing_back(place: Place, world: World):
    told = await _begun(place)
    await _dirty(world, told)
    stalled = await asyncio.to_thread(_stalled_before_its_write, place, told)
    tenant = TenantId(told.tenant)
    services = world.strata.services
    try:
        await erase_tenant(services.records, tenant, "operator", services.clock())
        await stories.drain(world, told.tenant)
        assert tenant not in await services.index.tenants(system_scope())
        stalled.send(signal.SIGCONT)
        assert (await asyncio.to_thread(stalled.end)).signal == 0
    finally:
        stalled.close()
    await stories.drain(world, told.tenant)
    assert tenant not in await services.index.tenants(system_scope())
    found = await audit(world.strata, told.tenant)
    assert not found.faults
    assert found.rows == found.entries == 0
    assert await services.sessions.count_tenant(system_scope(tenant)) == 0


async def _applied(world: World, tenant: str) -> None:
    """A pass that takes the deletion over from whoever holds the entry, but does not verify it."""
    until = time.monotonic() + stories.DRAIN_S
    while await _held_dead(world, tenant):
        assert time.monotonic() < until
        await world.workers.curator.step()
        await asyncio.sleep(0.05)


async def _held(world: World, tenant: str) -> set[str]:
    return {memory_id for memory_id, _ in await indexed(world.strata.services.index, tenant)}


async def _held_dead(world: World, tenant: str) -> bool:
    """Whether the index holds an entry of a deleted row."""
    return (await audit(world.strata, tenant)).undead > 0
