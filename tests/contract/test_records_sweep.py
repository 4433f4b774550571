"""The contract of WorkQueue: what the sweeper reads and marks, and how users' keys are changed."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from memory.errors import Forbidden, NotFound
from memory.ids import MemoryId, TenantId, UserId, UserRef
from memory.scope import Grant, Scope, system_scope
from storage.protocols import Backlog, Filters, SweptRow, UserKey
from storage.records import SqlRecords, create_engine
from tests.contract.record_cases import MODEL, change, claim, entry, event, index_all, later, packed, store

M1, M2 = MemoryId("m1"), MemoryId("m2")

# In the order of their bytes: what a language's collation would put elsewhere.
ORDERED = ["-", "-a", "0", "10", "9", "A", "B", "Z", "_", "_a", "a", "a-", "a0", "aA", "a_", "aa", "b", "z"]


async def test_only_the_system_may(records: SqlRecords, alice: Scope) -> None:
    admin = replace(alice, grants=frozenset({Grant.ADMIN}))
    for call in (
        records.rows_after(admin, None, 1),
        records.rows_of(admin, [M1]),
        records.mark(admin, [M1]),
        records.rewrap_keys(admin, lambda scope, key: None, 1),
        records.replace_key(admin, UserKey(UserRef("r"), b"w")),
    ):
        with pytest.raises(Forbidden):
            await call


@pytest.mark.parametrize("step", [1, 4, 18, 100])
async def test_the_walk_goes_by_bytes_and_misses_none(
    records: SqlRecords, alice: Scope, worker: Scope, step: int
) -> None:
    bob = replace(alice, user_id=UserId("bob"))
    for i, memory_id in enumerate(reversed(ORDERED)):
        user = (alice, bob)[i % 2]
        await store(records, user, entry(user, memory_id, f"fact {i}"))
    other = replace(alice, tenant_id=TenantId(alice.tenant_id + "x"))
    await store(records, other, entry(other, "foreign"))
    seen: list[str] = []
    after: MemoryId | None = None
    while rows := await records.rows_after(worker, after, step):
        assert len(rows) <= step
        seen += [row.id for row in rows]
        after = rows[-1].id
    assert seen == ORDERED == sorted(ORDERED)


async def test_a_row_is_seen_with_its_version_life_and_wait(records: SqlRecords, alice: Scope, worker: Scope) -> None:
    bob = replace(alice, user_id=UserId("bob"))
    await store(records, alice, entry(alice, "m1"), entry(alice, "m2", "Two."))
    await index_all(records, alice)
    await change(records, alice, "m1", content="Changed.")
    await records.delete(alice, [M2], event("delete"))
    await store(records, bob, entry(bob, "m3", "Bob's."))
    expected = [
        SweptRow(M1, UserId("alice"), 2, True, True),
        SweptRow(M2, UserId("alice"), 1, False, True),
        SweptRow(MemoryId("m3"), UserId("bob"), 1, True, True),
    ]
    assert await records.rows_after(worker, None, 10) == expected
    asked = [MemoryId(i) for i in ("m3", "m1", "m2", "m1", "none", "M1", "m1 ", "")]
    assert sorted(await records.rows_of(worker, asked), key=lambda row: row.id) == expected
    assert await records.rows_of(worker, []) == [] == await records.rows_after(worker, MemoryId("m3"), 10)
    await index_all(records, alice)
    assert [(row.id, row.waiting) for row in await records.rows_after(worker, None, 10)] == [
        ("m1", False),
        ("m3", False),
    ]


async def test_marked_entries_are_dirty_again_whoevers_they_are(
    records: SqlRecords, alice: Scope, worker: Scope
) -> None:
    bob = replace(alice, user_id=UserId("bob"))
    other = replace(alice, tenant_id=TenantId(alice.tenant_id + "x"))
    await store(records, alice, entry(alice, "m1"), entry(alice, "rest", "Rest."))
    await store(records, bob, entry(bob, "m2", "Bob's."))
    await store(records, other, entry(other, "m9"))
    await index_all(records, alice)
    await index_all(records, other)
    ids = [MemoryId(i) for i in ("m1", "m2", "m1", "m9", "none", "M1", "m1 ")]
    assert await records.mark(worker, ids) == 2
    assert await records.mark(worker, []) == 0
    items = {item.memory_id: item for item in await claim(records, alice)}
    assert set(items) == {"m1", "m2"}
    assert items[M2].scope.user == "bob" and items[M2].memory == await records.get(bob, M2)
    assert (await records.backlog(system_scope(other.tenant_id))) == Backlog(0)


async def test_a_mark_makes_a_holders_work_worthless_and_keeps_since(
    records: SqlRecords, alice: Scope, worker: Scope
) -> None:
    await store(records, alice, entry(alice, "m1"))
    first = (await records.backlog(worker)).oldest
    assert first is not None and abs((datetime.now(UTC) - first).total_seconds()) < 600
    (item,) = await claim(records, alice)
    assert await records.mark(worker, [M1]) == 1
    assert (await records.backlog(worker)) == Backlog(1, first)
    assert not await records.finish_dirty(worker, item, "w", None)
    (item,) = await claim(records, alice)
    await records.fail_dirty(worker, item, "w", later(999))
    await store(records, alice, entry(alice, "m2", "Newer."))
    assert (await records.backlog(worker)) == Backlog(2, first)


async def test_p26_a_marked_tombstone_is_removed_from_the_index_once_more(
    records: SqlRecords, alice: Scope, worker: Scope
) -> None:
    """The sweeper found a deleted entry in the index while its deletion was waiting to be verified."""
    await store(records, alice, entry(alice, "m1"))
    receipt = await records.delete(alice, [M1], event("delete"))
    (item,) = await claim(records, alice)
    await records.finish_dirty(worker, item, "w", later(60))
    assert await records.mark(worker, [M1]) == 1
    (item,) = await claim(records, alice)
    assert (item.memory, item.phase) == (None, "apply")
    await records.finish_dirty(worker, item, "w", later())
    (item,) = await claim(records, alice)
    assert item.phase == "verify" and await records.finish_dirty(worker, item, "w", None)
    assert (await records.receipt(alice, receipt.id)).completed_at is not None


# --- users' keys


def key(name: str, wrapped: bytes | None = None) -> UserKey:
    return UserKey(UserRef(f"r_{name}"), wrapped or f"old {name}".encode())


async def keyed(records: SqlRecords, scope: Scope, *names: str) -> None:
    for name in names:
        made = key(f"{scope.tenant_id}_{name}")
        await records.user_key(replace(scope, user_id=UserId(name)), lambda made=made: made)  # type: ignore[misc]


def anew(seen: list[tuple[str, str]]) -> Callable[[Scope, UserKey], bytes | None]:
    def rewrapped(scope: Scope, key: UserKey) -> bytes | None:
        seen.append((scope.tenant_id, scope.user))
        return b"new" + key.wrapped[3:] if key.wrapped.startswith(b"old") else None

    return rewrapped


@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_every_key_is_wrapped_anew_in_bounded_steps(
    records: SqlRecords, alice: Scope, worker: Scope, limit: int
) -> None:
    names = [f"u{i}" for i in range(7)]
    await keyed(records, alice, *names)
    await store(
        records, replace(alice, user_id=UserId("keyless")), entry(replace(alice, user_id=UserId("keyless")), "k")
    )
    seen: list[tuple[str, str]] = []
    steps = []
    while done := await records.rewrap_keys(worker, anew(seen), limit):
        steps.append(done)
    assert sum(steps) == 7 and max(steps) <= limit
    assert set(seen) == {(alice.tenant_id, name) for name in names}
    for name in names:
        found = await records.user_key(replace(alice, user_id=UserId(name)), lambda: key("never"))
        assert found == key(f"{alice.tenant_id}_{name}", f"new {alice.tenant_id}_{name}".encode())
    assert await records.rewrap_keys(worker, anew(seen), limit) == 0


async def test_a_key_that_came_behind_the_walk_is_wrapped_anew_too(
    records: SqlRecords, alice: Scope, worker: Scope
) -> None:
    await keyed(records, alice, "b", "c")
    assert await records.rewrap_keys(worker, anew([]), 1) == 1
    await keyed(records, alice, "a")
    assert [await records.rewrap_keys(worker, anew([]), 1) for _ in range(3)] == [1, 1, 0]
    found = await records.user_key(replace(alice, user_id=UserId("a")), lambda: key("never"))
    assert found.wrapped.startswith(b"new")


async def test_a_key_that_changed_meanwhile_is_left_alone(
    records_url: str, records: SqlRecords, alice: Scope, worker: Scope
) -> None:
    """What was made anew out of a key that a rotation replaced, or an erasure destroyed, in between is not stored."""
    await keyed(records, alice, "alice", "bob", "carol")

    async def change_both() -> None:
        engine = create_engine(records_url, 30.0)
        others = SqlRecords(engine)
        await others.replace_key(system_scope(alice.tenant_id, alice.user), key("x" + alice.tenant_id, b"other"))
        await others.erase_user(replace(alice, user_id=UserId("bob")), event("erase"))
        await engine.dispose()

    def between(scope: Scope, key: UserKey) -> bytes:
        if scope.user == "alice":  # the page has been read; another process has its turn
            with ThreadPoolExecutor(1) as elsewhere:
                elsewhere.submit(lambda: asyncio.run(change_both())).result()
        return b"new"

    assert await records.rewrap_keys(worker, between, 10) == 1
    assert (await records.user_key(alice, lambda: key("never"))).wrapped == b"other"
    with pytest.raises(NotFound):
        await records.user_key(replace(alice, user_id=UserId("bob")), lambda: key("never"))
    assert (await records.user_key(replace(alice, user_id=UserId("carol")), lambda: key("never"))).wrapped == b"new"


async def test_a_replaced_key_takes_the_token_vectors_and_dirties_all(
    records: SqlRecords, alice: Scope, worker: Scope
) -> None:
    bob = replace(alice, user_id=UserId("bob"))
    await keyed(records, alice, "alice", "bob")
    await store(records, alice, entry(alice, "m1"), entry(alice, "m2", "Two."))
    await store(records, bob, entry(bob, "b1", "Bob's."))
    await index_all(records, alice)
    system = system_scope(alice.tenant_id, alice.user)
    new = key("new_" + alice.tenant_id, b"fresh")
    assert await records.replace_key(system, new) == key(f"{alice.tenant_id}_alice")
    assert await records.user_key(alice, lambda: key("never")) == new
    rows = await records.recall_rows(alice, [M1, M2], Filters(), MODEL, 10)
    assert {(row.memory.id, row.tokens, row.unindexed) for row in rows} == {("m1", None, True), ("m2", None, True)}
    assert {item.memory_id for item in await claim(records, alice)} == {"m1", "m2"}
    (bobs,) = await records.recall_rows(bob, [MemoryId("b1")], Filters(), MODEL, 0)
    assert bobs.tokens is not None and not bobs.unindexed


async def test_what_was_sealed_with_the_old_key_cannot_be_stored_any_more(
    records: SqlRecords, alice: Scope, worker: Scope
) -> None:
    await keyed(records, alice, "alice")
    await store(records, alice, entry(alice, "m1"))
    (item,) = await claim(records, alice)
    assert item.memory is not None
    await records.replace_key(item.scope, key("new_" + alice.tenant_id))
    assert not await records.store_tokens(item.scope, M1, MODEL, item.memory.version, packed())
    assert not await records.finish_dirty(worker, item, "w", None)
    (again,) = await claim(records, alice)
    assert again.memory is not None
    assert await records.store_tokens(item.scope, M1, MODEL, again.memory.version, packed())


async def test_a_user_without_a_key_has_none_to_replace(records: SqlRecords, alice: Scope) -> None:
    system = system_scope(alice.tenant_id, alice.user)
    assert await records.replace_key(system, key("new_" + alice.tenant_id)) is None
    await store(records, alice, entry(alice, "m1"))
    assert await records.replace_key(system, key("new_" + alice.tenant_id)) is None
    made = await records.user_key(alice, lambda: key("made_" + alice.tenant_id))
    assert made == key("made_" + alice.tenant_id)
