"""P18, P26: kill -9 of a reindex at any step; run again it misses nothing, writes nothing twice and leaves nothing undead."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from deployments.indexes import OpenIndex, open_index
from deployments.reindexing import Done, Reindexer, drop
from deployments.settings import StoreSettings
from deployments.stores import Stores, open_sessions, open_stores
from memory.ids import TenantId
from memory.scope import Grant, system_scope
from storage.protocols import VersionState
from storage.records.versions import SqlVersions
from storage.sessions.redis_store import RedisSessions
from tests.faults import model
from tests.faults.conftest import ALL
from tests.faults.processes import run
from tests.faults.steps import STORES, Steps, changes
from tests.faults.stories import drain, quiet
from tests.faults.world import Place, opened

SHOP = system_scope(TenantId("shop"))
USERS, ENTRIES, BATCH = ("wei", "lin"), 20, 8
LEAN = 8
"""Steps at which it is killed, spread over the whole run; every one with STRATA_FAULTS=all."""


@pytest.mark.timeout(1800)
def test_p18_a_reindex_killed_at_any_step_goes_on_and_loses_nothing(home: Path, tmp_path: Path):
    first, other = (model.prepared_model(tmp_path, dimension) for dimension in (16, 32))
    place = Place(home, first)
    doomed = run(begin, place).value
    steps = changes(run(reindex_and_drop, place, other).value)
    assert {"after versions.put #1", "after index.upsert #1", "after records.store_tokens #1"} <= set(steps)
    chosen = steps if ALL else steps[:: -(-len(steps) // LEAN)]

    killed, resumed = 0, 0
    for step, memory_id in zip(chosen, doomed, strict=False):
        killed += run(reindex_and_drop, place, other, step).signal == 9
        found: Found = run(finish, place, other, memory_id).value
        assert found.state is VersionState.READY, step
        assert found.rows == found.entries == found.tokens > 0, (step, found)
        assert not found.differing, (step, found)
        resumed += found.written < found.rows
    assert killed > len(chosen) * 2 // 3  # each run has an entry less than the one before, and so fewer steps
    assert resumed >= len(chosen) // 3  # they found something done and did not do it again
    print(f"reindex: {killed} kills, of {len(steps)} steps; {resumed} runs went on; missing, twice, undead: 0/0/0")


@dataclass
class Found:
    """After a run that came to its end: live rows, entries of the new index, their token vectors, what is on one side alone or in
    another version, and what that run wrote."""

    state: VersionState
    rows: int
    entries: int
    tokens: int
    differing: set[str]
    written: int


# --- what runs in processes of its own --------------------------------------------------------------------------------


async def begin(place: Place) -> list[str]:
    """A tenant with entries of two users, all indexed by the first model. The ids of those that may be deleted."""
    quiet()
    async with opened(place) as world:
        shop = await world.strata.tenant("shop", grants=frozenset({Grant.MEMORY, Grant.IMPORT}))
        ids = []
        for user in USERS:
            items = [{"content": f"The user's locker number {n} is {n * 37 + 1000}."} for n in range(ENTRIES)]
            body = {"user_id": user, "mode": "verbatim", "memories": items}
            answer = await shop.call("POST", "/v1/memories", json=body)
            assert answer.status_code < 300, answer.text
            listed = await shop.call("GET", "/v1/memories", params={"user_id": user, "limit": 100})
            ids += [one["id"] for one in listed.json()["items"]]
        assert len(ids) == len(USERS) * ENTRIES
        await drain(world)
        return ids[::2]


async def new_index(stores: Stores, embedder) -> OpenIndex:
    card = await embedder.card()
    return await open_index(stores.settings, stores.versions, stores.keys, card.key, card.dimension)


async def reindex(stores: Stores, found: OpenIndex, embedder, redis) -> Done:
    sessions = RedisSessions(redis)
    made = Reindexer(stores.versions, stores.records, stores.tenants, sessions, found.index, embedder, batch=BATCH)
    return await made.run()


async def reindex_and_drop(place: Place, folder: Path, at: str | None = None) -> list[str]:
    """A whole reindex, killed at step `at`; where it is not, all of it is dropped again. Returns the steps that it took."""
    quiet()
    steps = Steps(at).install({**STORES, "versions": SqlVersions})
    embedder, settings = model.load(folder), StoreSettings(home=place.home)
    async with open_stores(settings) as stores, open_sessions(settings) as redis:
        found = await new_index(stores, embedder)
        steps.armed = True
        await reindex(stores, found, embedder, redis)
        steps.armed = False
        await drop(stores.versions, found.index, found.model_key)
        await found.index.aclose()
    await embedder.close()
    return steps.seen


async def finish(place: Place, folder: Path, memory_id: str) -> Found:
    """Strata, which answers with the first model, deletes an entry and verifies it gone; then the reindex is run to its end and looked
    at, and dropped for the next one."""
    quiet()
    async with opened(place) as world:
        shop = await world.strata.tenant("shop", grants=frozenset({Grant.MEMORY, Grant.IMPORT}))
        for user in USERS:
            answer = await shop.call("DELETE", f"/v1/memories/{memory_id}", params={"user_id": user})
            assert answer.status_code in (202, 404)
        await drain(world)
    embedder, settings = model.load(folder), StoreSettings(home=place.home)
    async with open_stores(settings) as stores, open_sessions(settings) as redis:
        found = await new_index(stores, embedder)
        done = await reindex(stores, found, embedder, redis)
        rows = {row.id: row.version for row in await stores.records.rows_after(SHOP, None, 1000) if row.live}
        page = await found.index.walk(SHOP, None, 1000)
        held = dict(page.entries)
        listed = await stores.versions.versions(system_scope())
        (state,) = (one.state for one in listed if one.model_key == found.model_key)
        differing = {str(one) for one in rows.keys() | held.keys() if rows.get(one) != held.get(one)}
        tokens = await drop(stores.versions, found.index, found.model_key)
        await found.index.aclose()
    await embedder.close()
    return Found(state, len(rows), len(page.entries), tokens, differing, done.written)
