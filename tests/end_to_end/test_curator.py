"""The Curator where things go wrong: poisonous entries, and workers that write long after they should (P12, P26, P39)."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select, update

from deployments.curation.curator import Curator
from memory.errors import DeadlineExceeded, InvalidInput, StrataError, Unavailable
from memory.ids import MemoryId, TenantId
from memory.scope import Scope, system_scope
from storage.protocols import SealedEntry
from storage.records.schema import dirty
from tests.end_to_end.harness import CURATION, Strata

pytestmark = pytest.mark.model
OF_SHOP = system_scope(TenantId("shop"))
PHASES = select(dirty.c.phase)
LEASES_END = update(dirty).values(lease_until=None)


async def indexed(strata: Strata) -> set[str]:
    return {str(memory_id) for memory_id, _ in (await strata.services.index.walk(OF_SHOP, None, 1000)).entries}


@pytest.mark.parametrize(
    ("failure", "at_once"),
    [
        (InvalidInput("entries", "cannot be"), 2),  # of the entry: each is tried alone
        (Unavailable("index"), 1),  # of the store, so it seems: it is asked twice more, for half of them each
        (DeadlineExceeded("index"), 1),
    ],
)
async def test_p12_p39_a_poisonous_entry_puts_off_nobody_else(
    strata, shop, monkeypatch, failure: StrataError, at_once: int
):
    """Whatever its failure looks like: that of an entry, or that of a store that seems to be away."""
    talk = await shop.open("wei")
    await talk.say("我对芒果过敏。", "I like chess.", "I live in Oslo.")
    ids = {memory["content"]: memory["id"] for memory in await talk.memories()}
    poison = next(memory_id for content, memory_id in ids.items() if "chess" in content)
    backend = strata.services.index._backend
    real = backend.upsert

    async def upsert(scope: Scope, entries: Sequence[SealedEntry]) -> None:
        if any(entry.id == poison for entry in entries):
            raise failure
        await real(scope, entries)

    monkeypatch.setattr(backend, "upsert", upsert)
    await strata.curator.step()
    assert len(await indexed(strata)) >= at_once
    async with asyncio.timeout(60):
        while await indexed(strata) != set(ids.values()) - {poison}:
            await strata.curator.step()
            await asyncio.sleep(0.02)
    waiting = await strata.services.records.backlog(system_scope())
    assert waiting.entries == 1

    later = await talk.say("I like tea.")  # and what comes later does not wait for it either
    async with asyncio.timeout(60):
        while later["verdicts"][0]["memory_id"] not in await indexed(strata):
            await strata.curator.step()
            await asyncio.sleep(0.02)

    monkeypatch.setattr(backend, "upsert", real)
    async with asyncio.timeout(60):
        while (await strata.services.records.backlog(system_scope())).entries:
            await strata.curator.step()
            await asyncio.sleep(0.02)
    assert poison in await indexed(strata)


class Stalled:
    """An index whose writes, once sent, arrive when they are let go, whatever became of the worker that sent them."""

    def __init__(self, backend: Any) -> None:
        self._backend, self._upsert = backend, backend.upsert
        self.sent, self.let_go = asyncio.Event(), asyncio.Event()
        self.late: list[asyncio.Task[None]] = []

    async def upsert(self, scope: Scope, entries: Sequence[SealedEntry]) -> None:
        self.sent.set()
        self.late.append(asyncio.create_task(self._arrive(scope, entries)))
        await asyncio.shield(self.late[-1])

    async def _arrive(self, scope: Scope, entries: Sequence[SealedEntry]) -> None:
        await self.let_go.wait()
        await self._upsert(scope, entries)

    async def arrive(self) -> None:
        self.let_go.set()
        await asyncio.gather(*self.late)


@pytest.mark.parametrize("verified", [False, True])
async def test_p26_a_stalled_worker_that_writes_after_the_delete(strata, shop, monkeypatch, verified):
    """Its write arrives before the deletion is verified, and is found then; or so late that only the sweeper finds it."""
    talk = await shop.open("wei")
    await talk.say("我对芒果过敏。")
    (entry,) = await talk.memories()
    backend = strata.services.index._backend
    await strata.services.index.ensure_tenant(OF_SHOP)
    stalled = Stalled(backend)
    monkeypatch.setattr(backend, "upsert", stalled.upsert)
    sleeper = Curator("sleeper", strata.services, CURATION.model_copy(update={"lease_s": 60.0}))
    step = asyncio.create_task(sleeper.step())
    await stalled.sent.wait()
    monkeypatch.setattr(backend, "upsert", stalled._upsert)

    receipt = await talk.call("DELETE", f"/v1/memories/{entry['id']}")
    step.cancel()  # as at the end of its lease; what it sent is still under way
    await asyncio.gather(step, return_exceptions=True)
    await strata.services.records._database.write(lambda connection: connection.execute(LEASES_END))
    if verified:
        await strata.receipt(receipt["id"], talk.token)
        await stalled.arrive()
        assert await indexed(strata) == {entry["id"]}
        assert await strata.services.records.rows_of(OF_SHOP, [MemoryId(entry["id"])]) == []
        for _ in range(3):
            await strata.workers.sweeper.step()
    else:
        async with asyncio.timeout(60):
            while not await verifying(strata):
                await strata.curator.step()
                await asyncio.sleep(0.02)
        await stalled.arrive()
        assert await indexed(strata) == {entry["id"]}
        await strata.receipt(receipt["id"], talk.token)
    assert await indexed(strata) == set()


async def verifying(strata: Strata) -> bool:
    """Whether the deletion has been applied and waits for its verification."""
    rows = await strata.services.records._database.read(lambda connection: connection.execute(PHASES).scalars().all())
    return list(rows) == ["verify"]


async def test_a_retired_replica_leaves_the_work_to_its_successors(strata, shop):
    talk = await shop.open("wei")
    await talk.say("我对芒果过敏。")
    old = Curator("old", replace(strata.services, retired=lambda: True), CURATION)
    assert await old.step() is False
    assert await indexed(strata) == set()
    await strata.settle()
    assert len(await indexed(strata)) == 1
