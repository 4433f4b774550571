"""The contract of ErasureStore: a whole tenant (I3)."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from memory.errors import Conflict, NotFound, StrataError
from memory.ids import MemoryId, TenantId, UserId
from memory.scope import Scope, system_scope
from storage.protocols import Filters, Placement, Receipt, TenantRecord
from storage.records import Database, SqlRecords, SqlTenants, SqlVersions
from storage.records.schema import dirty, erasures, memories, placements, receipts, tenants, users
from tests.contract.erasure_cases import (
    ERASE,
    SYSTEM,
    carry_out_tenant,
    count,
    due,
    live_in,
    made,
    of,
)
from tests.contract.record_cases import (
    MODEL,
    claim,
    entry,
    event,
    later,
    store,
)


@pytest.fixture
async def shop(tenants: SqlTenants, alice: Scope) -> TenantRecord:
    record = TenantRecord(alice.tenant_id, "Shop", {"recall": {"limit": 3}}, 1)
    await tenants.apply(SYSTEM, record, [])
    return record


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
