"""The contract of RecordStore: what recall reads of an entry, and that it was read."""

from datetime import datetime

import pytest
from sqlalchemy import select, update

from memory.analysis import analysed, kept
from memory.errors import Forbidden
from memory.ids import MemoryId, SessionId, UserId
from memory.scope import Scope, system_scope
from storage.protocols import AuditEvent, Filters, Read
from storage.records import Database, SqlRecords
from storage.records.schema import audit, memories
from tests.contract.record_cases import DAY, NOON, change, entry, event, store

M1 = MemoryId("m1")
MODEL = "model_8"


async def lines_of(database: Database, scope: Scope) -> list[str | None]:
    query = select(memories.c.analysis).where(memories.c.tenant_id == scope.tenant_id).order_by(memories.c.id)
    return await database.read(lambda connection: list(connection.scalars(query)))


async def set_line(database: Database, scope: Scope, line: str | None) -> None:
    mine = (memories.c.tenant_id == scope.tenant_id, memories.c.id == M1)
    await database.write(lambda connection: connection.execute(update(memories).where(*mine).values(analysis=line)))


async def test_terms_are_kept_beside_the_content_and_follow_it(
    records: SqlRecords, database: Database, alice: Scope
) -> None:
    await store(records, alice, entry(alice, "m1", "用户喜欢喝龙井茶。"))
    assert await lines_of(database, alice) == [kept("用户喜欢喝龙井茶。", None)]
    await change(records, alice, "m1", content="The user likes tea.", subject="preference:tea")
    assert await lines_of(database, alice) == [kept("The user likes tea.", "preference:tea")]
    (row,) = await records.recall_rows(alice, [M1], Filters(), MODEL, 0)
    assert row.analysis == analysed("The user likes tea.", "preference:tea")


@pytest.mark.parametrize("line", [None, "", "0:abc user like tea\t", kept("The user likes coffee.", None)])
async def test_terms_that_are_of_no_use_are_made_anew(
    records: SqlRecords, database: Database, alice: Scope, line: str | None
) -> None:
    """None, by other rules, or of a wording that an older release changed: recall does not believe them, and the worker that next
    claims the entry stores those of today."""
    await store(records, alice, entry(alice, "m1", "The user likes tea."))
    await set_line(database, alice, line)
    (row,) = await records.recall_rows(alice, [M1], Filters(), MODEL, 0)
    assert row.analysis == analysed("The user likes tea.", None)
    assert await lines_of(database, alice) == [line]
    claimed = await records.claim_dirty(system_scope(alice.tenant_id), "w", 10, 30, NOON + 400 * DAY)
    assert [item.memory_id for item in claimed] == [M1]
    assert await lines_of(database, alice) == [kept("The user likes tea.", None)]


async def test_p25_terms_go_with_the_content(records: SqlRecords, database: Database, alice: Scope) -> None:
    await store(records, alice, entry(alice, "m1", "用户对花生过敏"))
    await records.delete(alice, [M1], event("delete", "m1"))
    assert await lines_of(database, alice) == [None]


async def test_i2_reads_of_many_users_are_counted_and_audited_at_once(
    records: SqlRecords, database: Database, alice: Scope
) -> None:
    """An id that is another's, or gone, counts nothing; the audit names what was asked for, each read by itself."""
    bob = Scope(alice.tenant_id, UserId("bob"))
    await store(records, alice, entry(alice, "m1"), entry(alice, "m2", "Two."))
    await store(records, bob, entry(bob, "b1"))

    def read(scope: Scope, at: datetime, *ids: str) -> Read:
        return Read(scope, AuditEvent("read", "key:k", tuple(map(MemoryId, ids)), at, SessionId("s1"), "context"))

    reads = [
        read(alice, NOON + DAY, "m1", "m2"),
        read(bob, NOON, "b1", "m2"),
        read(alice, NOON, "m1", "m1", "none"),
    ]
    with pytest.raises(Forbidden):
        await records.note_reads(alice, reads)
    await records.note_reads(system_scope(), [])
    await records.note_reads(system_scope(), reads)
    counts = {}
    for scope, name in ((alice, "m1"), (alice, "m2"), (bob, "b1")):
        found = await records.get(scope, MemoryId(name))
        counts[name] = (found.access_count, found.last_access_at)
    assert counts == {"m1": (2, NOON + DAY), "m2": (1, NOON + DAY), "b1": (1, NOON)}
    a = audit.c
    query = select(a.user_id, a.memory_id, a.at, a.event_id).where(a.action == "read", a.tenant_id == alice.tenant_id)
    rows = await database.read(lambda connection: connection.execute(query.order_by(a.number)).all())
    assert [row[:3] for row in rows] == [
        (alice.user, "m1", NOON + DAY),
        (alice.user, "m2", NOON + DAY),
        (bob.user, "b1", NOON),
        (bob.user, "m2", NOON),
        (alice.user, "m1", NOON),
        (alice.user, "m1", NOON),
        (alice.user, "none", NOON),
    ]
    assert len({row.event_id for row in rows}) == 3
