"""The contract of RecordStore: forgetting, by the user's wish and because a turn went."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import func, select

from memory.entry import Memory, Status
from memory.errors import Forbidden, NotFound
from memory.ids import MemoryId, SessionId, TurnId, UserId
from memory.scope import Grant, Scope
from storage.protocols import Filters, Lookup, Plan, Retracted
from storage.records import Database, SqlRecords
from storage.records.schema import audit, memories, memory_entities, memory_tokens, memory_turns, revisions
from tests.contract.record_cases import (
    DAY,
    MANY,
    MODEL,
    NOON,
    change,
    claim,
    entry,
    event,
    index_all,
    packed,
    say,
    store,
    supersede,
)

M1, M2, M3 = MemoryId("m1"), MemoryId("m2"), MemoryId("m3")


async def ids(records: SqlRecords, scope: Scope) -> dict[str, Status]:
    return {m.id: m.status for m in (await records.page(scope, Filters(), 1000, None)).items}


async def count(database: Database, scope: Scope, table: Any, *where: Any) -> int:
    query = select(func.count()).select_from(table).where(table.c.tenant_id == scope.tenant_id, *where)
    return await database.read(lambda connection: int(connection.execute(query).scalar_one()))


async def test_p25_a_deleted_entry_is_found_by_nothing(records: SqlRecords, database: Database, alice: Scope) -> None:
    said = entry(alice, "m1", "The code is 4711.", subject="code", entities=("4711",), turns=["t1"], context=["t0"])
    await store(records, alice, said, entry(alice, "m2", "Stays."))
    await index_all(records, alice)
    receipt = await records.delete(alice, [M1, M1], event("delete"))
    assert receipt.count == 1
    for call in (records.get(alice, M1), records.history(alice, M1), records.delete(alice, [M1], event("delete"))):
        with pytest.raises(NotFound):
            await call
    assert set(await ids(records, alice)) == {"m2"}
    assert {r.memory.id for r in await records.recall_rows(alice, [M1, M2], Filters(), MODEL, 100)} == {"m2"}
    assert [m.id for m in await records.recent(alice, 10)] == ["m2"]
    assert (await records.page(alice, Filters(entity="4711"), 10, None)).items == ()
    seen: list[Memory] = []
    lookup = Lookup(subjects=("code",), near=(M1,), unindexed=100)
    await records.write(alice, lookup, say_nothing(seen), [], MANY)
    assert seen == []
    assert await records.retract_turns(alice, [TurnId("t1"), TurnId("t0")], event("retract")) == Retracted()
    for table in (memory_tokens, memory_entities, memory_turns, revisions):
        assert await count(database, alice, table, table.c.memory_id == "m1") == 0


def say_nothing(seen: list[Memory]) -> Any:
    return lambda found: seen.extend(found) or Plan(())


async def test_a_tombstone_says_nothing(records: SqlRecords, database: Database, alice: Scope) -> None:
    await store(
        records, alice, entry(alice, "m1", "Secret.", subject="s:x", value="v", metadata={"k": "v"}, turns=["t1"])
    )
    await records.delete(alice, None, event("delete_all"))
    m = memories.c
    said = (m.content, m.subject, m.value, m.entities, m.metadata, m.turn_ids, m.context_turn_ids, m.session_id)
    found = (m.subject_digest, m.sort_digest, m.fingerprint_digest, m.supersedes, m.valid_from, m.valid_to, m.language)
    query = select(*said, *found).where(m.tenant_id == alice.tenant_id)
    assert set(await database.read(lambda c: tuple(c.execute(query).one()))) == {None}


async def test_p19_deleting_all_of_user1_leaves_user2(records: SqlRecords, alice: Scope) -> None:
    users = [replace(alice, user_id=UserId(name)) for name in ("user1", "user2", "user", "user11", "User1")]
    for user in users:
        await store(records, user, *(entry(user, f"{user.user}-{i}", f"fact {i}") for i in range(3)))
    receipt = await records.delete(users[0], None, event("delete_all"))
    assert receipt.count == 3
    assert await ids(records, users[0]) == {}
    for other in users[1:]:
        assert len(await ids(records, other)) == 3


async def test_deletion_is_all_or_nothing(records: SqlRecords, alice: Scope) -> None:
    bob = replace(alice, user_id=UserId("bob"))
    await store(records, alice, entry(alice, "m1"))
    await store(records, bob, entry(bob, "b1", "Bob's."))
    for wrong in ("none", "b1"):
        with pytest.raises(NotFound):
            await records.delete(alice, [M1, MemoryId(wrong)], event("delete"))
    assert set(await ids(records, alice)) == {"m1"} and set(await ids(records, bob)) == {"b1"}


async def test_p22_deleting_no_ids_deletes_nothing(records: SqlRecords, alice: Scope) -> None:
    await store(records, alice, entry(alice, "m1"))
    receipt = await records.delete(alice, [], event("delete"))
    assert (receipt.count, receipt.completed_at is not None) == (0, True)
    assert set(await ids(records, alice)) == {"m1"}


async def test_a_receipt_is_complete_when_the_last_absence_is_verified(
    records: SqlRecords, database: Database, alice: Scope, worker: Scope
) -> None:
    """L10, I3."""
    await store(records, alice, entry(alice, "m1"), entry(alice, "m2", "Two."))
    await index_all(records, alice)
    receipt = await records.delete(alice, None, event("delete_all"))
    assert receipt == await records.receipt(alice, receipt.id)
    assert (receipt.action, receipt.requested_at, receipt.completed_at) == ("delete_all", NOON, None)
    assert receipt.user_id == alice.user
    records_, index = receipt.stores["records"], receipt.stores["index"]
    assert (records_.before, records_.after, records_.at is not None) == (2, 0, True)
    assert (index.before, index.after, index.at) == (2, None, None)
    assert records_.method and index.method

    for item in await claim(records, alice):
        assert item.memory is None and item.phase == "apply"
        assert not await records.finish_dirty(worker, item, "w", None)  # a deletion is never done unverified
    first, second = await claim(records, alice)
    assert first.phase == second.phase == "verify"
    assert await records.finish_dirty(worker, first, "w", None)
    assert (await records.receipt(alice, receipt.id)).completed_at is None
    assert await records.finish_dirty(worker, second, "w", None)
    done = await records.receipt(alice, receipt.id)
    assert done.completed_at is not None
    assert (done.stores["index"].after, done.stores["index"].at) == (0, done.completed_at)
    assert done.stores["records"] == records_
    assert await count(database, alice, memories) == 0
    assert (await records.backlog(worker)).entries == 0

    bob = replace(alice, user_id=UserId("bob"))
    for scope, name in ((bob, receipt.id), (replace(alice, tenant_id=UserId("x")), receipt.id), (alice, "none")):
        with pytest.raises(NotFound):
            await records.receipt(scope, name)
    with pytest.raises(Forbidden):  # another's receipt takes the right to see it
        await records.receipt(Scope(alice.tenant_id), receipt.id)
    for grant in (Grant.ADMIN, Grant.SYSTEM):
        everyone = Scope(alice.tenant_id, grants=frozenset({grant}))
        assert (await records.receipt(everyone, receipt.id)).count == 2


async def test_p28_an_id_used_again_finds_nothing_of_its_predecessor(
    records: SqlRecords, database: Database, alice: Scope
) -> None:
    await store(records, alice, entry(alice, "m1", "Old secret.", turns=["t1"], entities=("Old",)))
    await index_all(records, alice)
    await records.delete(alice, [M1], event("delete"))
    await store(records, alice, entry(alice, "m1", "Too early."))  # a retry from before the deletion: stays gone
    with pytest.raises(NotFound):
        await records.get(alice, M1)
    await index_all(records, alice)
    await store(records, alice, entry(alice, "m1", "New."))
    (row,) = await records.recall_rows(alice, [M1], Filters(), MODEL, 0)
    assert (row.memory.content, row.tokens, row.unindexed) == ("New.", None, True)
    assert [r.content for r in await records.history(alice, M1)] == ["New."]
    assert await count(database, alice, memory_turns) == await count(database, alice, memory_entities) == 0


async def test_what_an_entry_replaced_is_forgotten_with_it(
    records: SqlRecords, database: Database, alice: Scope
) -> None:
    """What is told to be forgotten is gone, its earlier wordings as well; the receipt counts them, the audit names them."""
    await store(records, alice, entry(alice, "m1", "Lives in Bonn"), entry(alice, "other", "Rows."))
    await supersede(records, alice, "m1", entry(alice, "m2", "Lives in Ulm", at=NOON + DAY))
    await supersede(records, alice, "m2", entry(alice, "m3", "Lives in Kiel", at=NOON + 2 * DAY))
    receipt = await records.delete(alice, [M3], event("delete"))
    assert receipt.count == 3
    assert await ids(records, alice) == {"other": Status.ACTIVE}
    named = select(audit.c.memory_id).where(audit.c.tenant_id == alice.tenant_id)
    assert sorted(await database.read(lambda c: list(c.scalars(named)))) == ["m1", "m2", "m3"]


async def test_deleting_an_outdated_entry_leaves_what_replaced_it(records: SqlRecords, alice: Scope) -> None:
    await store(records, alice, entry(alice, "m1", "Lives in Bonn"))
    await supersede(records, alice, "m1", entry(alice, "m2", "Lives in Ulm", at=NOON + DAY))
    await records.delete(alice, [M1], event("delete"))
    assert await ids(records, alice) == {"m2": Status.ACTIVE}
    assert (await records.get(alice, M2)).supersedes is None
    (row,) = await records.recall_rows(alice, [M2], Filters(), MODEL, 0)
    assert row.predecessor is None


# --- a turn goes (P31, W7) --------------------------------------------------------------------------------------------


async def test_p31_what_a_turn_taught_goes_with_it(records: SqlRecords, alice: Scope, worker: Scope) -> None:
    await store(
        records,
        alice,
        entry(alice, "alone", "from t1", turns=["t1"]),
        entry(alice, "both", "from t1 and t2", turns=["t1", "t2"]),
        entry(alice, "after", "said after t1", turns=["t3"], context=["t0", "t1"]),
        entry(alice, "apart", "from t4", turns=["t4"]),
    )
    await index_all(records, alice)
    gone = await records.retract_turns(alice, [TurnId("t1"), TurnId("t9")], event("retract"))
    assert gone.deleted == ("alone",)
    assert set(gone.changed) == {"both", "after"} and gone.restored == ()
    assert set(await ids(records, alice)) == {"both", "after", "apart"}
    assert (await records.get(alice, MemoryId("both"))).turn_ids == ("t2",)
    assert (await records.get(alice, MemoryId("after"))).context_turn_ids == ("t0",)
    rows = await records.recall_rows(alice, [MemoryId("after"), MemoryId("apart")], Filters(), MODEL, 0)
    tokens = {r.memory.id: (r.tokens is not None, r.unindexed) for r in rows}
    assert tokens == {"after": (False, True), "apart": (True, False)}
    assert {i.memory_id for i in await claim(records, alice)} == {"alone", "both", "after"}
    assert (await records.retract_turns(alice, [TurnId("t2")], event("retract"))).deleted == ("both",)


async def test_p31_a_worker_with_the_old_context_cannot_store_it(
    records: SqlRecords, alice: Scope, worker: Scope
) -> None:
    await store(records, alice, entry(alice, "m1", turns=["t2"], context=["t1"]))
    (item,) = await claim(records, alice)
    assert item.memory is not None
    await records.retract_turns(alice, [TurnId("t1")], event("retract"))
    assert not await records.store_tokens(item.scope, M1, MODEL, item.memory.version, packed())
    assert not await records.finish_dirty(worker, item, "w", None)
    (again,) = await claim(records, alice, "other")
    assert again.memory is not None and again.memory.context_turn_ids == ()


async def test_p23_p31_turns_of_another_session_with_the_same_ids_stay(records: SqlRecords, alice: Scope) -> None:
    elsewhere = replace(alice, session_id=SessionId("s2"))
    bob = replace(alice, user_id=UserId("bob"))
    await store(records, alice, entry(alice, "m1", turns=["t1"]))
    await store(records, elsewhere, entry(elsewhere, "m2", "From s2.", turns=["t1"]))
    await store(records, bob, entry(bob, "b1", "Bob's.", turns=["t1"]))
    assert (await records.retract_turns(alice, [TurnId("t1")], event("retract"))).deleted == ("m1",)
    assert set(await ids(records, alice)) == {"m2"} and set(await ids(records, bob)) == {"b1"}
    with pytest.raises(NotFound):
        await records.retract_turns(replace(alice, session_id=None), [TurnId("t1")], event("retract"))


async def test_p31_what_a_retracted_entry_had_retired_is_active_again(records: SqlRecords, alice: Scope) -> None:
    await store(records, alice, entry(alice, "m1", "Lives in Bonn", turns=["t1"]))
    await supersede(records, alice, "m1", entry(alice, "m2", "Lives in Ulm", turns=["t2"], at=NOON + DAY))
    gone = await records.retract_turns(alice, [TurnId("t2")], event("retract"))
    assert (gone.deleted, gone.restored) == (("m2",), ("m1",))
    back = await records.get(alice, M1)
    assert (back.status, back.valid_to) == (Status.ACTIVE, None)
    assert [r.change for r in await records.history(alice, M1)] == ["stored", "superseded", "restored"]


async def test_p31_a_retracted_link_of_a_chain_is_closed(records: SqlRecords, alice: Scope) -> None:
    """Bonn, then Ulm, then Kiel: without Ulm, Kiel still prevails, over Bonn."""
    await store(records, alice, entry(alice, "m1", "Bonn", turns=["t1"]))
    await supersede(records, alice, "m1", entry(alice, "m2", "Ulm", turns=["t2"], at=NOON + DAY))
    await supersede(records, alice, "m2", entry(alice, "m3", "Kiel", turns=["t3"], at=NOON + 2 * DAY))
    gone = await records.retract_turns(alice, [TurnId("t2")], event("retract"))
    assert (gone.deleted, gone.restored) == (("m2",), ())
    assert await ids(records, alice) == {"m1": Status.OUTDATED, "m3": Status.ACTIVE}
    assert (await records.get(alice, M3)).supersedes == "m1"


@pytest.mark.parametrize("turns", [("t2", "t3"), ("t3", "t2")])
async def test_p31_two_links_retracted_at_once_bring_back_the_first(
    records: SqlRecords, alice: Scope, turns: tuple[str, str]
) -> None:
    await store(records, alice, entry(alice, "m1", "Bonn", turns=["t1"]))
    await supersede(records, alice, "m1", entry(alice, "m2", "Ulm", turns=["t2"], at=NOON + DAY))
    await supersede(records, alice, "m2", entry(alice, "m3", "Kiel", turns=["t3"], at=NOON + 2 * DAY))
    gone = await records.retract_turns(alice, [TurnId(t) for t in turns], event("retract"))
    assert set(gone.deleted) == {"m2", "m3"} and gone.restored == ("m1",)
    assert await ids(records, alice) == {"m1": Status.ACTIVE}


async def test_p31_retracting_the_whole_chain_brings_nothing_back(records: SqlRecords, alice: Scope) -> None:
    await store(records, alice, entry(alice, "m1", "Bonn", turns=["t1"]))
    await supersede(records, alice, "m1", entry(alice, "m2", "Ulm", turns=["t2"], at=NOON + DAY))
    gone = await records.retract_turns(alice, [TurnId("t1"), TurnId("t2")], event("retract"))
    assert set(gone.deleted) == {"m1", "m2"} and gone.restored == ()
    assert await ids(records, alice) == {}


async def test_p31_a_wording_that_came_with_the_turn_goes_with_it(records: SqlRecords, alice: Scope) -> None:
    """The entry was confirmed in newer words by a turn that the user took back."""
    await store(records, alice, entry(alice, "m1", "Likes tea", turns=["t1"]))
    await change(
        records,
        alice,
        "m1",
        "confirmed",
        content="Likes tea very much",
        confidence=0.7,
        hit_count=2,
        turn_ids=(TurnId("t1"), TurnId("t2")),
    )
    gone = await records.retract_turns(alice, [TurnId("t2")], event("retract"))
    assert gone.changed == ("m1",)
    back = await records.get(alice, M1)
    assert (back.content, back.confidence, back.hit_count, back.turn_ids) == ("Likes tea", 0.6, 1, ("t1",))
    assert all("very much" not in r.content for r in await records.history(alice, M1))
    await records.write(alice, Lookup(), say(alice, "m9", "likes TEA!", turns=["t5"]), [], MANY)
    assert set(await ids(records, alice)) == {"m1"}  # found by the fingerprint of the words that it has again


async def test_an_entry_confirmed_in_another_session_outlives_the_first_ones_turn(
    records: SqlRecords, alice: Scope
) -> None:
    await store(records, alice, entry(alice, "m1", "Likes tea", turns=["a1"]))
    second = replace(alice, session_id=SessionId("s2"))
    await records.write(second, Lookup(), say(second, "m2", "likes tea", turns=["b1"]), [], MANY)
    assert (await records.retract_turns(alice, [TurnId("a1")], event("retract"))).deleted == ()
    assert (await records.get(alice, M1)).turn_ids == ("b1",)
    assert (await records.retract_turns(second, [TurnId("b1")], event("retract"))).deleted == ("m1",)
