"""The records: inserting and deleting an entry with history, audit and dirty mark. Floor: one bare INSERT, committed."""

import asyncio
import secrets
from dataclasses import replace
from datetime import UTC, datetime

from sqlalchemy import insert

from benchmarks.phrases import memories
from benchmarks.stores.measuring import Figure, median_ms
from memory.entry import Kind, Memory, Source, Status
from memory.ids import MemoryId, TenantId, UserId
from memory.scope import Scope
from memory.text import fingerprint
from storage.protocols import AuditEvent, Filters, Insert, Lookup, Plan
from storage.records import SqlRecords, create_engine, migrate
from storage.records.schema import audit


async def measure(backend: str, url: str, times: int) -> list[Figure]:
    await asyncio.to_thread(migrate, url)
    database = create_engine(url, 30.0)
    try:
        records = SqlRecords(database)
        scope = Scope(TenantId(f"bench_{secrets.token_hex(6)}"), UserId("alice"))
        now = datetime.now(UTC)
        texts = memories(2 * times + 10)
        entry = Memory(
            id=MemoryId("m"),
            user_id=scope.user,
            content="",
            kind=Kind.FACT,
            source=Source.USER,
            status=Status.ACTIVE,
            language="en",
            importance=0.5,
            confidence=0.6,
            version=1,
            created_at=now,
            updated_at=now,
        )

        def event(action: str, number: int) -> AuditEvent:
            return AuditEvent(action, "benchmark", (MemoryId(f"m{number}"),), now)

        async def store(number: int) -> None:
            memory = replace(entry, id=MemoryId(f"m{number}"), content=texts[number])
            change = Insert(memory, fingerprint(memory.content))
            lookup = Lookup(fingerprints=(change.fingerprint,), unindexed=100)
            await records.write(scope, lookup, lambda _: Plan((change,)), [event("write", number)], 1_000_000)

        async def bare(number: int) -> None:
            row = {
                "tenant_id": scope.tenant_id,
                "event_id": secrets.token_hex(16),
                "at": now,
                "action": "floor",
                "actor": "benchmark",
                "reason": "",
            }
            await database.write(lambda connection: connection.execute(insert(audit).values(**row)) and None)

        floor = await median_ms(bare, times)
        stored = await median_ms(store, times)
        read = await median_ms(lambda _: records.page(scope, Filters(), 20, None), times)

        async def delete(number: int) -> None:
            await records.delete(scope, [MemoryId(f"m{number}")], event("delete", number))

        deleted = await median_ms(delete, times)
        return [
            Figure(backend, "insert an entry", stored, floor, "bare INSERT + commit"),
            Figure(backend, "delete an entry", deleted, floor, "bare INSERT + commit"),
            Figure(backend, "list 20 entries", read),
        ]
    finally:
        await database.dispose()
