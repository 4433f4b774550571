"""Another process at the same database: `python -m tests.contract.record_writer URL TENANT MODE NAME COUNT`.

Modes: `same` writes one fact over and over, `own` writes facts of its own, `churn` writes, indexes and deletes until it is killed.
Prints what it has been answered, one line each, so that a test knows what was acknowledged.
"""

import asyncio
import sys
from dataclasses import replace

from memory.ids import MemoryId, SessionId, TenantId, UserId
from memory.scope import Scope, system_scope
from storage.protocols import Lookup
from storage.records import SqlRecords, create_engine
from tests.contract.record_cases import MANY, MODEL, change, entry, event, later, packed, say, store

GO = "ready"


async def same(records: SqlRecords, scope: Scope, name: str, count: int) -> None:
    for i in range(count):
        turn = f"{name}-{i}"
        await records.write(scope, Lookup(), say(scope, turn, "记住：我对花生过敏", turns=[turn]), [], MANY)
        print(turn, flush=True)


async def own(records: SqlRecords, scope: Scope, name: str, count: int) -> None:
    for i in range(count):
        await store(records, scope, entry(scope, f"{name}-{i}", f"{name} says {i}"))
        print(f"{name}-{i}", flush=True)


async def churn(records: SqlRecords, scope: Scope, name: str, count: int) -> None:
    system = system_scope(scope.tenant_id)
    for i in range(count):
        memory_id = f"{name}-{i}"
        await store(records, scope, entry(scope, memory_id, f"{name} says {i}", turns=[memory_id], entities=(name,)))
        print("stored", memory_id, flush=True)
        if i % 2:
            await change(records, scope, memory_id, content=f"{name} corrects {i}")
        for item in await records.claim_dirty(system, name, 5, 0.05, later()):
            if item.memory is not None:
                await records.store_tokens(item.scope, item.memory_id, MODEL, item.memory.version, packed())
            verify = later() if item.memory is None and item.phase == "apply" else None
            await records.finish_dirty(system, item, name, verify)
        if i % 3 == 0:
            await records.delete(scope, [MemoryId(memory_id)], event("delete"))
            print("deleted", memory_id, flush=True)


async def main(url: str, tenant: str, mode: str, name: str, count: str) -> None:
    scope = Scope(TenantId(tenant), UserId("alice"), SessionId("s1"))
    engine = create_engine(url, 30.0)
    records = SqlRecords(engine)
    await records.ping()
    print(GO, flush=True)
    sys.stdin.readline()  # all begin together
    work = {"same": same, "own": own, "churn": churn}[mode]
    await work(records, replace(scope, session_id=SessionId(name)), name, int(count))
    await engine.dispose()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
