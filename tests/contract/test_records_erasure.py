"""The contract of ErasureStore: the fence, the order, the receipt (I3)."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import func, select

from memory.errors import Conflict, Forbidden, NotFound, StrataError
from memory.ids import MemoryId, TenantId, TurnId, UserId, UserRef
from memory.scope import Grant, Scope, system_scope
from storage.protocols import Erasure, Filters, Lookup, Placement, Receipt, StoreReport, TenantRecord, UserKey
from storage.records import Database, SqlRecords, SqlTenants, SqlVersions
from storage.records.schema import dirty, erasures, memories, placements, receipts, tenants, users
from tests.contract.record_cases import (
    MANY,
    MODEL,
    NOON,
    claim,
    entry,
    event,
    index_all,
    later,
    packed,
    say,
    store,
)

M1, M2 = MemoryId("m1"), MemoryId("m2")
SYSTEM = system_scope()
ERASE = event("erase")


def made(name: str) -> UserKey:
    return UserKey(UserRef(f"ref_{name}"), f"wrapped {name}".encode())


def of(scope: Scope, name: str) -> Scope:
    return replace(scope, user_id=UserId(name))


async def live_in(records: SqlRecords, scope: Scope, *names: str) -> None:
    """Users with a key, two entries, token vectors, history, turns and names each."""
    for name in names:
        user = of(scope, name)
        await records.user_key(user, lambda user=user: made(f"{user.tenant_id}_{user.user}"))  # type: ignore[misc]
        both = [
            entry(user, f"{name}-{i}", f"{name} says {i}", turns=[f"t{i}"], context=["t0"], entities=(name,))
            for i in (1, 2)
        ]
        await store(records, user, *both)
    await index_all(records, scope)


async def due(records: SqlRecords, tenant: Scope, worker: str = "w", **options: Any) -> list[Erasure]:
    options = {"limit": 100, "lease_s": 30.0, "now": later(1)} | options
    return await records.claim_erasures(system_scope(tenant.tenant_id), worker, **options)


def empty(*names: str) -> dict[str, StoreReport]:
    return {name: StoreReport(3, 0, "counted", NOON) for name in names}


async def carry_out(records: SqlRecords, tenant: Scope) -> list[bool]:
    """Both phases of the one erasure that is due, with every other store empty."""
    system, done = system_scope(tenant.tenant_id), []
    for verify_at in (later(1), None):
        (erasure,) = await due(records, tenant, now=later(999))
        done.append(await records.advance_erasure(system, erasure, "w", empty("index"), verify_at))
    return done


async def count(database: Database, scope: Scope, table: Any, *where: Any) -> int:
    query = select(func.count()).select_from(table).where(table.c.tenant_id == scope.tenant_id, *where)
    return await database.read(lambda connection: int(connection.execute(query).scalar_one()))


@pytest.fixture
async def shop(tenants: SqlTenants, alice: Scope) -> TenantRecord:
    record = TenantRecord(alice.tenant_id, "Shop", {"recall": {"limit": 3}}, 1)
    await tenants.apply(SYSTEM, record, [])
    return record


# --- a user


async def test_i3_erasing_a_user_destroys_at_once_and_is_complete_only_when_verified(
    records: SqlRecords, database: Database, alice: Scope, worker: Scope
) -> None:
    await live_in(records, alice, "alice", "bob")
    assert await records.count_rows(alice_system(alice)) > 5
    receipt = await records.erase_user(alice, ERASE)
    assert (receipt.action, receipt.count, receipt.user_id, receipt.completed_at) == ("erase", 2, "alice", None)
    assert receipt == await records.receipt(alice, receipt.id)
    assert receipt.stores["records"].before > 5 and receipt.stores["records"].after is None
    assert (receipt.stores["keys"].before, receipt.stores["keys"].after) == (1, 0)
    assert await records.count_rows(alice_system(alice)) == 0  # nothing in SQL says anything any more
    assert (await records.page(alice, Filters(), 10, None)).items == ()

    (erasure,) = await due(records, alice)
    assert (erasure.receipt_id, erasure.phase, erasure.attempts) == (receipt.id, "erase", 0)
    assert erasure.refs == (f"ref_{alice.tenant_id}_alice",)
    assert erasure.scope == alice_system(alice) and erasure.requested_at == NOON
    assert erasure.stores == receipt.stores
    assert await records.advance_erasure(worker, erasure, "w", empty("sessions"), later(60))
    assert await due(records, alice) == []  # the grace
    (erasure,) = await due(records, alice, now=later(61))
    assert erasure.phase == "verify" and set(erasure.stores) == {"records", "keys", "sessions"}
    assert not await records.advance_erasure(worker, erasure, "w", empty("index"), None)  # tombstones still wait
    assert (await records.receipt(alice, receipt.id)).completed_at is None

    await index_all(records, alice)  # the curator's ordinary way with tombstones
    (erasure,) = await due(records, alice, now=later(61))
    assert await records.advance_erasure(worker, erasure, "w", empty("index"), None)
    done = await records.receipt(alice, receipt.id)
    assert done.completed_at is not None
    assert set(done.stores) == {"records", "keys", "sessions", "index"}
    assert {report.after for report in done.stores.values()} == {0}
    assert all(report.at is not None and report.method for report in done.stores.values())
    mine = memories.c.user_id == "alice"
    assert await count(database, alice, memories, mine) == await count(database, alice, erasures) == 0
    assert await count(database, alice, users, users.c.user_id == "alice") == 0
    assert {m.id for m in (await records.page(of(alice, "bob"), Filters(), 10, None)).items} == {"bob-1", "bob-2"}
    assert (await records.user_key(of(alice, "bob"), lambda: made("x"))).ref == f"ref_{alice.tenant_id}_bob"


def alice_system(alice: Scope) -> Scope:
    return system_scope(alice.tenant_id, UserId("alice"))


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


# --- a tenant


async def test_i3_erasing_a_tenant_fences_all_its_users_and_takes_its_rows_in_steps(
    records: SqlRecords,
    tenants: SqlTenants,
    versions: SqlVersions,
    database: Database,
    alice: Scope,
    worker: Scope,
    shop: TenantRecord,
) -> None:
    other = replace(alice, tenant_id=TenantId(alice.tenant_id + "x"))
    await live_in(records, alice, "alice", "bob", "carol")
    await live_in(records, other, "alice")
    await versions.place(worker, MODEL, Placement("collection"))
    deleted = await records.delete(alice, [MemoryId("alice-1")], event("delete"))
    bobs = await records.erase_user(of(alice, "bob"), ERASE)
    receipt = await records.erase_tenant(worker, ERASE)
    assert (receipt.count, receipt.user_id, receipt.completed_at) == (3, None, None)
    record = await tenants.tenant(SYSTEM, alice.tenant_id)
    assert record == replace(shop, suspended=True, erasing=True, version=2)
    assert await records.erase_tenant(worker, event("again")) == receipt
    keyed = users.c.wrapped.is_not(None)
    assert await count(database, alice, users, keyed) == 0 and await count(database, other, users, keyed) == 1

    for name in ("alice", "bob", "dora"):  # known, being erased, never seen
        late = of(alice, name)
        with pytest.raises(Conflict):
            await store(records, late, entry(late, "late", "Late."))
        with pytest.raises(NotFound):
            await records.user_key(late, lambda: made("late"))
    assert await claim(records, alice, now=later(999)) == []  # its index goes whole

    assert await records.tenant_users(worker, None, 2) == ["alice", "bob"]
    assert await records.tenant_users(worker, UserId("bob"), 2) == ["carol"]
    taken = []
    while gone := await records.erase_rows(worker, 4):
        taken.append(gone)
    assert taken == [4, 2]
    assert await records.count_rows(worker) == 0 and (await records.backlog(worker)).entries == 0
    assert await records.tenant_users(worker, None, 10) == [
        "alice",
        "bob",
        "carol",
    ]  # their sessions may still have to go

    assert await carry_out_tenant(records, alice) == [True, True]
    done = await records.receipt(worker, receipt.id)
    assert done.completed_at is not None and {report.after for report in done.stores.values()} == {0}
    for earlier in (deleted.id, bobs.id):
        assert (await records.receipt(worker, earlier)).completed_at is not None
    with pytest.raises(NotFound):
        await tenants.tenant(SYSTEM, alice.tenant_id)
    for table in (memories, users, erasures, dirty, placements):
        assert await count(database, alice, table) == 0
    assert await count(database, other, memories) == 2 and await count(database, alice, receipts) == 3
    assert await records.erase_rows(worker, 4) == 0


async def carry_out_tenant(records: SqlRecords, alice: Scope) -> list[bool]:
    """Both phases of the tenant's own order, with every other store empty."""
    system, done = system_scope(alice.tenant_id), []
    for verify_at in (later(1), None):
        (erasure,) = [e for e in await due(records, alice, lease_s=0, now=later(999)) if e.scope.user_id is None]
        done.append(await records.advance_erasure(system, erasure, "w", empty("index", "sessions"), verify_at))
    return done


async def test_i3_a_tenant_is_not_gone_before_its_rows_are(
    records: SqlRecords, alice: Scope, worker: Scope, shop: TenantRecord
) -> None:
    await live_in(records, alice, "alice")
    receipt = await records.erase_tenant(worker, ERASE)
    assert await carry_out_tenant(records, alice) == [True, False]
    assert (await records.receipt(worker, receipt.id)).completed_at is None
    assert await records.tenant_users(worker, None, 10) == ["alice"]
    while await records.erase_rows(worker, 1):
        pass
    (erasure,) = await due(records, alice, now=later(9999))
    assert await records.advance_erasure(worker, erasure, "w", {}, None)


async def test_i3_rows_go_by_steps_only_of_a_fenced_tenant(
    records: SqlRecords, alice: Scope, worker: Scope, shop: TenantRecord
) -> None:
    await live_in(records, alice, "alice")
    with pytest.raises(Conflict):
        await records.erase_rows(worker, 10)
    assert len((await records.page(alice, Filters(), 10, None)).items) == 2
    with pytest.raises(NotFound):
        await records.erase_tenant(system_scope(TenantId(alice.tenant_id + "y")), ERASE)


async def test_i3_a_declaration_that_was_left_does_not_bring_an_erased_tenant_back(
    records: SqlRecords, tenants: SqlTenants, alice: Scope, worker: Scope, shop: TenantRecord
) -> None:
    await live_in(records, alice, "alice")
    await records.erase_tenant(worker, ERASE)
    before = await tenants.tenant(SYSTEM, alice.tenant_id)
    assert not await tenants.apply(SYSTEM, replace(shop, display_name="Shop again"), [])
    assert await tenants.tenant(SYSTEM, alice.tenant_id) == before


async def test_i3_new_users_racing_the_fence_of_their_tenant(
    records: SqlRecords, alice: Scope, worker: Scope, shop: TenantRecord
) -> None:
    """First sights, writes and the fence at once: afterwards nobody has a key, and what was written goes by steps."""

    async def come(name: str) -> None:
        user = of(alice, name)
        await records.user_key(user, lambda: made(f"{alice.tenant_id}_{name}"))
        await store(records, user, entry(user, f"{name}-1"))

    calls: list[Any] = [come(f"u{i}") for i in range(30)]
    calls.insert(12, records.erase_tenant(worker, ERASE))
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert all(r is None or isinstance(r, Receipt | Conflict | NotFound) for r in results), results
    with pytest.raises(StrataError):
        await come("late")
    while await records.erase_rows(worker, 10):
        pass
    assert await records.count_rows(worker) == 0


async def test_i3_what_a_cut_off_fence_left_is_finished_by_the_next_step(
    records: SqlRecords, database: Database, alice: Scope, worker: Scope, shop: TenantRecord
) -> None:
    """kill -9 between the fence and the keys: as if no key had been destroyed yet."""
    await live_in(records, alice, "alice", "bob")
    await records.erase_tenant(worker, ERASE)
    key = {"ref": f"ref_{alice.tenant_id}", "wrapped": b"key", "erasing_at": None}
    again = users.update().where(users.c.tenant_id == alice.tenant_id, users.c.user_id == "bob").values(**key)
    await database.write(lambda connection: connection.execute(again))
    with pytest.raises(Conflict):
        await store(records, of(alice, "bob"), entry(of(alice, "bob"), "late"))
    with pytest.raises(NotFound):
        await records.user_key(of(alice, "bob"), lambda: made("x"))
    assert await records.erase_rows(worker, 1) == 1
    assert await count(database, alice, users, users.c.wrapped.is_not(None)) == 0
    assert await count(database, alice, tenants_of(alice)) == 1


def tenants_of(alice: Scope) -> Any:
    return select(tenants.c.id.label("tenant_id")).where(tenants.c.id == alice.tenant_id).subquery()
