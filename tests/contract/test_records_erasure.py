"""The contract of ErasureStore: a user. The fence, the order, the receipt (I3)."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from memory.errors import Conflict, Forbidden, NotFound, Unavailable
from memory.ids import MemoryId, TurnId
from memory.scope import Grant, Scope
from storage.protocols import Filters, Lookup, Receipt, StoreReport
from storage.records import Database, SqlRecords, erasing
from storage.records.engine import T, Work
from storage.records.schema import audit, erasures, memories, users
from tests.contract.erasure_cases import (
    ERASE,
    SYSTEM,
    alice_system,
    carry_out,
    count,
    due,
    empty,
    live_in,
    made,
    of,
)
from tests.contract.record_backends import PATIENT_S
from tests.contract.record_cases import (
    MANY,
    MODEL,
    NOON,
    entry,
    event,
    index_all,
    later,
    packed,
    say,
    store,
)


async def test_i3_erasing_a_user_destroys_at_once_and_is_complete_only_when_verified(
    records: SqlRecords, database: Database, alice: Scope, worker: Scope
) -> None:
    await live_in(records, alice, "alice", "bob")
    assert await records.count_rows(alice_system(alice)) > 5
    receipt = await records.erase_user(alice, ERASE, empty("sessions"))
    assert (receipt.action, receipt.count, receipt.user_id, receipt.completed_at) == ("erase", 2, "alice", None)
    assert receipt == await records.receipt(alice, receipt.id)
    assert receipt.stores["records"].before > 5 and receipt.stores["records"].after is None
    assert (receipt.stores["keys"].before, receipt.stores["keys"].after) == (1, 0)
    assert (receipt.stores["index"].before, receipt.stores["index"].after) == (2, None)
    assert receipt.stores["sessions"] == empty("sessions")["sessions"]  # what its caller had found and removed
    assert await records.count_rows(alice_system(alice)) == 0  # nothing in SQL says anything any more
    assert (await records.page(alice, Filters(), 10, None)).items == ()

    (erasure,) = await due(records, alice)
    assert (erasure.receipt_id, erasure.phase, erasure.attempts) == (receipt.id, "erase", 0)
    assert erasure.refs == (f"ref_{alice.tenant_id}_alice",)
    assert erasure.scope == alice_system(alice) and erasure.requested_at == NOON
    assert erasure.stores == receipt.stores
    assert (await records.backlog(worker)).erasures == 1
    assert await records.advance_erasure(worker, erasure, "w", empty("claims"), later(60))
    assert await due(records, alice) == []  # the grace
    (erasure,) = await due(records, alice, now=later(61))
    assert erasure.phase == "verify" and set(erasure.stores) == {"records", "keys", "index", "sessions", "claims"}
    assert not await records.advance_erasure(worker, erasure, "w", empty("index"), None)  # tombstones still wait
    assert (await records.receipt(alice, receipt.id)).completed_at is None

    await index_all(records, alice)  # the curator's ordinary way with tombstones
    (erasure,) = await due(records, alice, now=later(61))
    assert await records.advance_erasure(worker, erasure, "w", empty("index"), None)
    done = await records.receipt(alice, receipt.id)
    assert done.completed_at is not None
    assert (await records.backlog(worker)).erasures == 0
    assert set(done.stores) == {"records", "keys", "index", "sessions", "claims"}
    assert {report.after for report in done.stores.values()} == {0}
    assert all(report.at is not None and report.method for report in done.stores.values())
    mine = memories.c.user_id == "alice"
    assert await count(database, alice, memories, mine) == await count(database, alice, erasures) == 0
    assert await count(database, alice, users, users.c.user_id == "alice") == 0
    assert {m.id for m in (await records.page(of(alice, "bob"), Filters(), 10, None)).items} == {"bob-1", "bob-2"}
    assert (await records.user_key(of(alice, "bob"), lambda: made("x"))).ref == f"ref_{alice.tenant_id}_bob"


class Dying(Database):
    """Gone after its next `left` transactions, as after a kill."""

    left = 2

    async def write(self, work: Work[T]) -> T:
        if self.left == 0:
            raise Unavailable("records")
        self.left -= 1
        return await super().write(work)


async def test_i3_a_user_of_many_entries_goes_in_steps_that_may_be_cut_off(
    records_url: str,
    records: SqlRecords,
    database: Database,
    alice: Scope,
    worker: Scope,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(erasing, "_ENTRIES_A_STEP", 3)
    await store(records, alice, *(entry(alice, f"m{i}", f"fact {i}") for i in range(10)))
    dying = Dying(records_url, deadline_s=PATIENT_S)
    with pytest.raises(Unavailable):
        await SqlRecords(dying).erase_user(alice, ERASE)
    await dying.dispose()
    assert await count(database, alice, memories, memories.c.deleted_at.is_(None)) == 4
    with pytest.raises(Conflict):  # the fence is up, how far it came
        await store(records, alice, entry(alice, "late"))
    (erasure,) = await due(records, alice)
    assert await records.advance_erasure(worker, erasure, "w", empty("index"), later())
    assert await records.count_rows(alice_system(alice)) == 0
    receipt = await records.erase_user(alice, ERASE)
    assert (receipt.id, receipt.count) == (erasure.receipt_id, 10)
    named = select(audit.c.memory_id).where(audit.c.tenant_id == alice.tenant_id, audit.c.action == "erase")
    assert sorted(await database.read(lambda c: list(c.scalars(named)))) == [f"m{i}" for i in range(10)]


async def test_i3_behind_the_fence_no_write_is_let_through(records: SqlRecords, alice: Scope) -> None:
    await live_in(records, alice, "alice")
    await records.erase_user(alice, ERASE)
    late: Sequence[Any] = (
        lambda: store(records, alice, entry(alice, "late", "Late.")),
        lambda: records.write(alice, Lookup(), say(alice, "late", "Late."), [event("write", "late")], MANY),
        lambda: records.delete(alice, None, event("delete")),
        lambda: records.retract_turns(alice, [TurnId("t1")], event("retract")),
        lambda: records.replace_key(alice_system(alice), made("new")),
    )
    for call in late:
        with pytest.raises(Conflict):
            await call()
    with pytest.raises(NotFound):
        await records.user_key(alice, lambda: made("new"))
    assert not await records.store_tokens(alice_system(alice), MemoryId("alice-1"), MODEL, 1, packed())
    await records.touch(alice, [MemoryId("alice-1")], NOON)
    await records.audit(alice, [event("recall", "alice-1")])
    assert await records.count_rows(alice_system(alice)) == 0
    await store(records, of(alice, "bob"), entry(of(alice, "bob"), "b1"))  # another's are


async def test_i3_erasing_again_answers_with_the_same_receipt(records: SqlRecords, alice: Scope) -> None:
    await live_in(records, alice, "alice")
    first = await records.erase_user(alice, ERASE)
    again = await asyncio.gather(*(records.erase_user(alice, event("again")) for _ in range(5)))
    assert again == [first] * 5
    assert len(await due(records, alice)) == 1


async def test_i3_a_burst_of_erasures_and_writes_leaves_nothing(records: SqlRecords, alice: Scope) -> None:
    """Whoever was let through wrote before the fence went up, and what he wrote went with it."""
    await live_in(records, alice, "alice")
    writes = [store(records, alice, entry(alice, f"w{i}", f"fact {i}")) for i in range(20)]
    erase = [records.erase_user(alice, ERASE) for _ in range(3)]
    calls = [*writes[:10], erase[0], *writes[10:15], erase[1], *writes[15:], erase[2]]
    results = await asyncio.gather(*calls, return_exceptions=True)
    answers = {r.id for r in results if isinstance(r, Receipt)}
    assert len(answers) == 1
    assert all(r is None or isinstance(r, Receipt | Conflict) for r in results)
    assert await records.count_rows(alice_system(alice)) == 0


async def test_i3_an_unknown_user_is_not_found(records: SqlRecords, alice: Scope) -> None:
    with pytest.raises(NotFound):
        await records.erase_user(alice, ERASE)
    with pytest.raises(NotFound):
        await records.erase_user(Scope(alice.tenant_id), ERASE)


async def test_i3_a_user_without_entries_or_key_can_be_erased(records: SqlRecords, alice: Scope) -> None:
    await records.user_key(alice, lambda: made(alice.tenant_id))
    receipt = await records.erase_user(alice, ERASE)
    assert receipt.count == 0
    assert await carry_out(records, alice) == [True, True]
    bob = of(alice, "bob")
    await store(records, bob, entry(bob, "b1"))  # imported, never searched: no key yet
    assert (await records.erase_user(bob, ERASE)).stores["keys"].before == 0
    await index_all(records, alice)
    assert await carry_out(records, alice) == [True, True]


async def test_i3_afterwards_the_user_begins_anew_with_another_key(
    records: SqlRecords, alice: Scope, worker: Scope
) -> None:
    await live_in(records, alice, "alice")
    first = await records.erase_user(alice, ERASE)
    await index_all(records, alice)
    assert await carry_out(records, alice) == [True, True]
    assert (await records.receipt(alice, first.id)).completed_at is not None
    key = await records.user_key(alice, lambda: made(f"{alice.tenant_id}_second"))
    assert key.ref == f"ref_{alice.tenant_id}_second"
    await store(records, alice, entry(alice, "alice-1", "New."))  # P28: nothing of its predecessor
    assert [r.content for r in await records.history(alice, MemoryId("alice-1"))] == ["New."]
    second = await records.erase_user(alice, ERASE)
    assert second.id != first.id and second.count == 1


async def test_i3_a_receipt_of_an_earlier_deletion_is_completed_by_its_own_verification(
    records: SqlRecords, alice: Scope
) -> None:
    await live_in(records, alice, "alice")
    deleted = await records.delete(alice, [MemoryId("alice-1")], event("delete"))
    erased = await records.erase_user(alice, ERASE)
    assert erased.count == 1
    await index_all(records, alice)
    assert (await records.receipt(alice, deleted.id)).completed_at is not None
    assert (await records.receipt(alice, erased.id)).completed_at is None
    assert await carry_out(records, alice) == [True, True]


async def test_i3_not_complete_while_a_store_holds_something_or_was_not_counted(
    records: SqlRecords, alice: Scope, worker: Scope
) -> None:
    await live_in(records, alice, "alice")
    receipt = await records.erase_user(alice, ERASE)
    await index_all(records, alice)
    (erasure,) = await due(records, alice)
    assert not await records.advance_erasure(worker, erasure, "w", empty("index"), None)  # nothing was waited for
    (erasure,) = await due(records, alice, now=later(99))
    assert erasure.phase == "erase"
    assert await records.advance_erasure(worker, erasure, "w", {"index": StoreReport(3, None, "m")}, later())
    for after in (None, 1):
        (erasure,) = await due(records, alice, now=later(99))
        stores = {**erasure.stores, "index": StoreReport(3, after, "counted", NOON)}
        assert not await records.advance_erasure(worker, erasure, "w", stores, None)
        assert (await records.receipt(alice, receipt.id)).stores["index"].after == after
        assert not await records.advance_erasure(worker, erasure, "w", {}, None)  # and nobody holds it any more
    (erasure,) = await due(records, alice, now=later(99))
    assert not await records.advance_erasure(worker, erasure, "w", {}, None)  # left out is not 0
    (erasure,) = await due(records, alice, now=later(99))
    assert await records.advance_erasure(worker, erasure, "w", empty("index"), None)


async def test_i3_erasures_are_leased_and_come_back(records: SqlRecords, alice: Scope, worker: Scope) -> None:
    await live_in(records, alice, "alice", "bob", "carol")
    for name in ("alice", "bob", "carol"):
        await records.erase_user(of(alice, name), ERASE)
    got = await asyncio.gather(*(due(records, alice, f"w{n}", limit=1) for n in range(6)))
    names = [erasure.scope.user for erasures_ in got for erasure in erasures_]
    assert len(names) == len(set(names))
    rest = await due(records, alice, "rest")
    assert len(names) + len(rest) == 3 and await due(records, alice, limit=0) == []
    held = next(found[0] for found in (*got, rest) if found)
    assert await due(records, alice, "other") == []
    taken = {e.scope.user: e for e in await due(records, alice, "other", now=later(40))}
    assert set(taken) == {"alice", "bob", "carol"}  # the leases have ended
    assert not await records.advance_erasure(worker, held, "w0", empty("index"), later())
    await records.fail_erasure(worker, held, "w0", later(9999))  # not his any more
    await records.fail_erasure(worker, taken[held.scope.user], "other", later(100))
    assert {e.scope.user for e in await due(records, alice, now=later(90))} == set(taken) - {held.scope.user}
    (back,) = await due(records, alice, now=later(101))
    assert (back.scope.user, back.attempts) == (held.scope.user, 1)
    everyone = await records.claim_erasures(SYSTEM, "w", 1000, 30, later(999))
    assert {e.receipt_id for e in everyone} >= {e.receipt_id for e in taken.values()}


async def test_i3_only_the_system_may(records: SqlRecords, alice: Scope) -> None:
    await live_in(records, alice, "alice")
    await records.erase_user(alice, ERASE)
    (erasure,) = await due(records, alice)
    admin = replace(alice, grants=frozenset({Grant.ADMIN}))
    for call in (
        records.erase_tenant(admin, ERASE),
        records.claim_erasures(admin, "w", 1, 30, later()),
        records.erase_rows(admin, 10),
        records.count_rows(admin),
        records.tenant_users(admin, None, 10),
        records.advance_erasure(admin, erasure, "w", {}, None),
        records.fail_erasure(admin, erasure, "w", later()),
    ):
        with pytest.raises(Forbidden):
            await call
