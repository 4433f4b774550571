"""The contract of RecordStore: the curator's side, which keeps the index equal to SQL."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from memory.entry import Status
from memory.errors import Forbidden, InvalidInput
from memory.ids import MemoryId, TenantId, UserId
from memory.scope import Scope, system_scope
from storage.protocols import Filters, Lookup, Plan, Update
from storage.records import SqlRecords
from tests.contract.record_cases import DAY, MODEL, NOON, change, claim, entry, event, index_all, later, packed, store

M1 = MemoryId("m1")


async def test_only_the_system_may(records: SqlRecords, alice: Scope) -> None:
    await store(records, alice, entry(alice, "m1"))
    (item,) = await claim(records, alice)
    for call in (
        records.claim_dirty(alice, "w", 1, 30, later()),
        records.store_tokens(alice, M1, MODEL, 1, packed()),
        records.finish_dirty(alice, item, "w", None),
        records.fail_dirty(alice, item, "w", later()),
        records.backlog(alice),
    ):
        with pytest.raises(Forbidden):
            await call


async def test_an_entry_is_claimed_with_its_present_state(records: SqlRecords, alice: Scope, worker: Scope) -> None:
    await store(records, alice, entry(alice, "m1"))
    await change(records, alice, "m1", content="Second wording.")
    assert (await records.backlog(worker)).entries == 1  # one row an entry, however often it changed
    (item,) = await claim(records, alice)
    assert item.memory == await records.get(alice, M1)
    assert item.scope == system_scope(alice.tenant_id, alice.user)
    assert (item.phase, item.attempts, item.token_model) == ("apply", 0, None)
    assert await records.finish_dirty(worker, item, "w", None)
    assert await claim(records, alice, now=later(999)) == []
    assert (await records.backlog(worker)).entries == 0


async def test_a_claim_of_all_tenants_and_of_one(records: SqlRecords, alice: Scope) -> None:
    other = replace(alice, tenant_id=TenantId(alice.tenant_id + "x"))
    await store(records, alice, entry(alice, "m1"))
    await store(records, other, entry(other, "m2"))
    assert [i.memory_id for i in await claim(records, alice, "w", lease_s=0)] == ["m1"]
    everyone = await records.claim_dirty(system_scope(), "w", 1000, 30, later(1))
    assert {(i.scope.tenant_id, i.memory_id) for i in everyone} >= {(alice.tenant_id, "m1"), (other.tenant_id, "m2")}
    assert (await records.backlog(system_scope())).entries >= 2


async def test_a_lease_keeps_others_away_until_it_ends(records: SqlRecords, alice: Scope, worker: Scope) -> None:
    await store(records, alice, entry(alice, "m1"))
    (mine,) = await claim(records, alice, "a", lease_s=30)
    assert await claim(records, alice, "b") == [] == await claim(records, alice, "a")
    (theirs,) = await claim(records, alice, "b", now=later(31))
    assert theirs.memory_id == "m1"
    assert not await records.finish_dirty(worker, mine, "a", None)  # it is b's by now
    await records.fail_dirty(worker, mine, "a", later(999))
    assert await records.finish_dirty(worker, theirs, "b", None)


async def test_concurrent_claims_share_nothing(records: SqlRecords, alice: Scope) -> None:
    await store(records, alice, *(entry(alice, f"m{i}", f"fact {i}") for i in range(60)))
    got = await asyncio.gather(*(claim(records, alice, f"w{n}", limit=20) for n in range(6)))
    claimed = [item.memory_id for items in got for item in items]
    assert len(claimed) == len(set(claimed))
    rest = [i.memory_id for i in await claim(records, alice, "last")]
    assert len(claimed) + len(rest) == 60


async def test_what_changed_meanwhile_stays_dirty_and_is_free_at_once(
    records: SqlRecords, alice: Scope, worker: Scope
) -> None:
    await store(records, alice, entry(alice, "m1"))
    (item,) = await claim(records, alice)
    await change(records, alice, "m1", content="Changed while it was encoded.")
    assert await claim(records, alice, "b") == []  # its holder still is on it
    assert not await records.finish_dirty(worker, item, "w", None)
    (again,) = await claim(records, alice, "b")
    assert again.memory is not None and again.memory.content == "Changed while it was encoded."
    assert again.mark != item.mark


async def test_a_finished_mark_is_never_made_again(records: SqlRecords, alice: Scope, worker: Scope) -> None:
    """A worker that slept over its own finished item must not finish the next one, even under the same name."""
    await store(records, alice, entry(alice, "m1"))
    (old,) = await claim(records, alice)
    assert await records.finish_dirty(worker, old, "w", None)
    await change(records, alice, "m1", content="New.")
    (new,) = await claim(records, alice)
    assert not await records.finish_dirty(worker, old, "w", None)
    assert (await records.backlog(worker)).entries == 1 and new.mark != old.mark


async def test_an_update_without_reindex_is_not_dirty(records: SqlRecords, alice: Scope, worker: Scope) -> None:
    await store(records, alice, entry(alice, "m1"))
    await index_all(records, alice)
    plan = Plan((Update(replace(entry(alice, "m1"), hit_count=2), "confirmed", reindex=False),))
    await records.write(alice, Lookup(unindexed=0), lambda _: plan, [], 10)
    assert (await records.backlog(worker)).entries == 0


async def test_p37_what_failed_comes_back_for_ever(records: SqlRecords, alice: Scope, worker: Scope) -> None:
    """The embedder is away for long; when it is back the entry gets its vector, and meanwhile recall finds it."""
    await store(records, alice, entry(alice, "m1"))
    for attempt in range(20):
        (item,) = await claim(records, alice, now=later(attempt * 100 + 1))
        assert item.attempts == attempt
        await records.fail_dirty(worker, item, "w", later(attempt * 100 + 50))
        assert await claim(records, alice, now=later(attempt * 100 + 10)) == []
        (row,) = await records.recall_rows(alice, [], Filters(), MODEL, 10)
        assert row.unindexed and row.memory.id == "m1"
    (item,) = await claim(records, alice, now=later(9999))
    assert await records.store_tokens(item.scope, M1, MODEL, 1, packed())
    assert await records.finish_dirty(worker, item, "w", None)
    (row,) = await records.recall_rows(alice, [M1], Filters(), MODEL, 10)
    assert not row.unindexed and row.tokens is not None


async def test_p37_a_correction_gives_a_failing_entry_a_fresh_start(
    records: SqlRecords, alice: Scope, worker: Scope
) -> None:
    await store(records, alice, entry(alice, "m1"))
    (item,) = await claim(records, alice)
    await records.fail_dirty(worker, item, "w", later(9999))
    await change(records, alice, "m1", content="Shorter.")
    (item,) = await claim(records, alice)
    assert item.attempts == 0
    await change(records, alice, "m1", content="Shorter still.")
    await records.fail_dirty(worker, item, "w", later(9999))  # of what it was before
    (item,) = await claim(records, alice)
    assert item.attempts == 0


async def test_p12_poisonous_entries_hold_up_nobody(records: SqlRecords, alice: Scope, worker: Scope) -> None:
    await store(records, alice, *(entry(alice, f"bad{i:02}", f"bad {i}") for i in range(30)))
    for item in await claim(records, alice):
        await records.fail_dirty(worker, item, "w", later(-1))  # due again at once
    await store(records, alice, entry(alice, "good", "good"))
    assert (await claim(records, alice, limit=1))[0].memory_id == "good"


async def test_p39_one_users_import_lets_others_in_between(records: SqlRecords, alice: Scope) -> None:
    await store(records, alice, *(entry(alice, f"m{i:03}", f"fact {i}") for i in range(200)))
    bob = replace(alice, user_id=UserId("bob"))
    await store(records, bob, entry(bob, "bobs", "One fact."))
    first = await claim(records, alice, limit=4)
    assert len(first) == 4 and "bobs" in {i.memory_id for i in first}


async def test_a_deletion_is_applied_then_verified_then_gone(records: SqlRecords, alice: Scope, worker: Scope) -> None:
    await store(records, alice, entry(alice, "m1"))
    await records.delete(alice, [M1], event("delete"))
    (item,) = await claim(records, alice)
    assert (item.memory, item.phase) == (None, "apply")
    assert await records.finish_dirty(worker, item, "w", later(60))
    assert await claim(records, alice) == []  # the grace
    (item,) = await claim(records, alice, now=later(61))
    assert (item.memory, item.phase, item.attempts) == (None, "verify", 0)
    assert await records.finish_dirty(worker, item, "w", later(120))  # a late write was found: once more
    (item,) = await claim(records, alice, now=later(121))
    assert item.phase == "verify"
    assert await records.finish_dirty(worker, item, "w", None)
    assert (await records.backlog(worker)).entries == 0


async def test_p26_a_deletion_beats_the_worker_that_is_indexing_it(
    records: SqlRecords, alice: Scope, worker: Scope
) -> None:
    await store(records, alice, entry(alice, "m1"))
    (item,) = await claim(records, alice)
    await records.delete(alice, [M1], event("delete"))
    assert not await records.store_tokens(item.scope, M1, MODEL, 1, packed())
    assert not await records.finish_dirty(worker, item, "w", None)
    (item,) = await claim(records, alice)
    assert item.memory is None


@pytest.mark.parametrize("version", [1, 3])
async def test_p18_tokens_of_another_version_are_refused(records: SqlRecords, alice: Scope, version: int) -> None:
    await store(records, alice, entry(alice, "m1"))
    await change(records, alice, "m1", content="Second.")
    scope = system_scope(alice.tenant_id, alice.user)
    assert not await records.store_tokens(scope, M1, MODEL, version, packed())
    assert not await records.store_tokens(scope, MemoryId("none"), MODEL, 2, packed())
    bob = system_scope(alice.tenant_id, UserId("bob"))
    assert not await records.store_tokens(bob, M1, MODEL, 2, packed())
    assert await records.store_tokens(scope, M1, MODEL, 2, packed(1))
    assert await records.store_tokens(scope, M1, MODEL, 2, packed(2))  # again: the last one stands
    (row,) = await records.recall_rows(alice, [M1], Filters(), MODEL, 0)
    assert row.tokens is not None
    np.testing.assert_array_equal(row.tokens, packed(2))


async def test_p18_a_claim_names_the_model_whose_tokens_are_there(records: SqlRecords, alice: Scope) -> None:
    await store(records, alice, entry(alice, "m1"))
    await index_all(records, alice)
    await change(records, alice, "m1", "superseded", status=Status.OUTDATED)
    (item,) = await claim(records, alice, lease_s=0)
    assert item.token_model == MODEL
    await change(records, alice, "m1", content="Other words.")
    (item,) = await claim(records, alice, lease_s=0, now=later(1))
    assert item.token_model is None


@pytest.mark.parametrize(
    "tokens",
    [np.zeros((2, 4), dtype=np.float32), np.zeros(4, dtype=np.uint8), np.zeros((2, 0), dtype=np.uint8)],
)
async def test_tokens_of_another_shape_are_refused(records: SqlRecords, alice: Scope, tokens: np.ndarray) -> None:
    await store(records, alice, entry(alice, "m1"))
    with pytest.raises(InvalidInput):
        await records.store_tokens(system_scope(alice.tenant_id, alice.user), M1, MODEL, 1, tokens)


async def test_an_entry_without_words_has_no_tokens_but_is_indexed(records: SqlRecords, alice: Scope) -> None:
    await store(records, alice, entry(alice, "m1", at=NOON + DAY))
    scope = system_scope(alice.tenant_id, alice.user)
    assert await records.store_tokens(scope, M1, MODEL, 1, packed(tokens=0))
    (row,) = await records.recall_rows(alice, [M1], Filters(), MODEL, 0)
    assert row.tokens is not None and row.tokens.shape == (0, 2)


async def test_a_claim_of_nothing(records: SqlRecords, alice: Scope) -> None:
    await store(records, alice, entry(alice, "m1"))
    assert await claim(records, alice, limit=0) == []
