"""What an erasure's tests are made of: users who left something, the worker's calls, counts."""

from dataclasses import replace
from typing import Any

from sqlalchemy import func, select

from memory.ids import UserId, UserRef
from memory.scope import Scope, system_scope
from storage.protocols import Erasure, StoreReport, UserKey
from storage.records import Database, SqlRecords
from tests.contract.record_cases import NOON, entry, event, index_all, later, store

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


async def carry_out_tenant(records: SqlRecords, alice: Scope) -> list[bool]:
    """Both phases of the tenant's own order, with every other store empty."""
    system, done = system_scope(alice.tenant_id), []
    for verify_at in (later(1), None):
        (erasure,) = [e for e in await due(records, alice, lease_s=0, now=later(999)) if e.scope.user_id is None]
        done.append(await records.advance_erasure(system, erasure, "w", empty("index", "sessions"), verify_at))
    return done


def alice_system(alice: Scope) -> Scope:
    return system_scope(alice.tenant_id, UserId("alice"))
