"""How it goes on when there are many: ten thousand tenants, a million rows. What is timed is timed with few as well, in the same run."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from sqlalchemy import Connection, literal, select

from benchmarks.capacity.servers import cpu_s, server_process
from benchmarks.capacity.sizes import (
    MODEL_KEY,
    PER_USER,
    Texts,
    always,
    database_bytes,
    folder_bytes,
    new_entry,
    samples,
)
from benchmarks.stores.measuring import median_ms
from benchmarks.stores.vectors import DIMENSION, KeysInMemory, sample_vectors
from memory.ids import MemoryId, TenantId, UserId
from memory.late import PER_BYTE
from memory.scope import Grant, Scope, system_scope
from memory.terms import terms
from memory.text import fingerprint
from storage.index.blind import BlindIndex, KeyRing, PlainEntry
from storage.index.local import LocalIndex
from storage.keys import MasterKey
from storage.protocols import AuditEvent, Filters, Insert, KeyRecord, Lookup, Plan, TenantRecord
from storage.records import SqlRecords, SqlTenants, create_engine, migrate
from storage.records.schema import memories, memory_tokens

TIMES = 100
CANDIDATES = 100
"""Ids that a context call joins: fifty by vector and fifty by keywords."""
LETTERS = "abcdefghijklmnop"
"""One for each time that all tenants are doubled."""


# --- tenants ----------------------------------------------------------------------------------------------------------


async def many_tenants(folder: Path, url: str, count: int, say: Callable[[str], None]) -> dict[str, Any]:
    """`count` tenants declared, each with a partition of the local index and ten entries in it: what creating, looking up, polling and
    searching costs with all of them, beside the same with the first ten."""
    await asyncio.to_thread(migrate, url)
    database = create_engine(url, 120.0)
    tenants, index = SqlTenants(database), _index(folder)
    blind = BlindIndex(index, KeyRing(KeysInMemory(), MasterKey(secrets.token_bytes(32))))
    names = [TenantId(f"t{number:06d}") for number in range(count)]
    vectors, words = sample_vectors(10, 8), [tuple(terms(f"number {n} of ten things")) for n in range(10)]
    entries = [PlainEntry(MemoryId(f"m{n}"), 1, vectors[n], words[n]) for n in range(10)]
    found: dict[str, Any] = {"tenants": count}
    try:
        spent = {"declare": 0.0, "partition": 0.0}
        for number, name in enumerate(names):
            spent["declare"] += await _timed(_declare(tenants, name))
            spent["partition"] += await _timed(index.ensure_tenant(Scope(name)))
            await blind.upsert(Scope(name, UserId("u")), entries)
            if number + 1 == min(10, count):
                found["with_ten"] = await _tenant_calls(tenants, blind, names[:10], vectors)
            if (number + 1) % 500 == 0:
                say(f"{number + 1:,} tenants")
        found["with_all"] = await _tenant_calls(tenants, blind, names, vectors)
        found |= {f"{what}_ms": round(1e3 * seconds / count, 2) for what, seconds in spent.items()}
        await index.aclose()
        found["index_bytes"] = await asyncio.to_thread(folder_bytes, folder)
        index = _index(folder)
        found["start_check_s"] = round(await _timed(index.check()), 2)
    finally:
        await index.aclose()
        await database.dispose()
    return found


def _index(folder: Path) -> LocalIndex:
    return LocalIndex(folder, MODEL_KEY, DIMENSION, 60.0)


async def _declare(tenants: SqlTenants, name: TenantId) -> None:
    key = KeyRecord(f"k_{name}", name, "main", secrets.token_bytes(32), frozenset({Grant.MEMORY}))
    await tenants.apply(system_scope(), TenantRecord(name, name, {}, 0), [key])


async def _tenant_calls(
    tenants: SqlTenants, blind: BlindIndex, names: list[TenantId], vectors: np.ndarray
) -> dict[str, float]:
    """Milliseconds, medians: a key's look-up and a search, of tenants in a fixed scatter; the poll that each replica makes."""

    def some(number: int) -> TenantId:
        return names[number * 7919 % len(names)]

    async def search(number: int) -> None:
        await blind.search(Scope(some(number), UserId("u")), vectors[0], ("number",), 50, 50)

    return {
        "key_ms": round(await median_ms(lambda number: tenants.key(system_scope(), f"k_{some(number)}"), TIMES), 3),
        "search_ms": round(await median_ms(search, TIMES), 3),
        "poll_ms": round(await median_ms(lambda _: tenants.versions(system_scope()), 20), 3),
    }


async def _timed(call: Awaitable[object]) -> float:
    began = time.perf_counter()
    await call
    return time.perf_counter() - began


# --- rows -------------------------------------------------------------------------------------------------------------


async def many_rows(url: str, rows: int, say: Callable[[str], None]) -> dict[str, Any]:
    """A tenant of 1,000 entries of ten users, then copied with its token vectors, each time all that there is, until there are `rows`.
    The statements of the context call, of a write, of a listing and of the workers, timed at the beginning and at the end."""
    await asyncio.to_thread(migrate, url)
    database = create_engine(url, 1200.0)
    try:
        records, tenant = SqlRecords(database), TenantId(f"n{secrets.token_hex(3)}")
        ids = await _first_tenant(records, tenant, samples(1000)["short"])
        count, found = 1000, dict[str, Any](calls={})
        server = server_process(url)
        found["calls"]["1000"] = await _row_calls(records, tenant, ids, server)
        before, began = await database_bytes(database), time.monotonic()
        last = tenant
        for letter in LETTERS:
            if count >= rows:
                break
            await database.write(partial(_double, tenant=tenant, letter=letter))
            count, last = 2 * count, TenantId(last + letter)
            say(f"{count:,} rows in {time.monotonic() - began:.0f} s")
        found["seconds"] = round(time.monotonic() - began, 1)
        found["rows"] = count
        found["copied_bytes"] = round((await database_bytes(database) - before) / max(1, count - 1000))
        found["calls"][str(count)] = await _row_calls(records, last, ids, server)
        return found
    finally:
        await database.dispose()


async def _first_tenant(records: SqlRecords, tenant: TenantId, sample: Texts) -> list[MemoryId]:
    """The first user's ids."""
    now, rng, first = datetime.now(UTC), np.random.default_rng(4), list[MemoryId]()
    for user in range(len(sample.texts) // PER_USER):
        scope = Scope(tenant, UserId(f"u{user}"))
        part = [
            new_entry(scope, each, n, now)
            for n, each in enumerate(sample.texts[user * PER_USER : (user + 1) * PER_USER])
        ]
        plan = Plan(tuple(Insert(memory, fingerprint(memory.content)) for memory in part))
        await records.write(scope, Lookup(), always(plan), [], 1_000_000)
        for memory in part:
            packed = rng.integers(0, 256, (sample.tokens, DIMENSION // PER_BYTE), dtype=np.uint8)
            await records.store_tokens(system_scope(tenant, scope.user), memory.id, MODEL_KEY, 1, packed)
        first = first or [memory.id for memory in part]
    while claimed := await records.claim_dirty(system_scope(tenant), "rows", 500, 60.0, datetime.now(UTC)):
        for item in claimed:
            await records.finish_dirty(system_scope(tenant), item, "rows", None)
    return first


def _double(connection: Connection, tenant: TenantId, letter: str) -> None:
    """Every tenant that began as `tenant` once more, its name a letter longer."""
    for table in (memories, memory_tokens):
        copied = [
            (column + literal(letter)).label("tenant_id") if column.name == "tenant_id" else column
            for column in table.c
        ]
        mine = table.c.tenant_id.startswith(tenant, autoescape=True)
        connection.execute(table.insert().from_select([column.name for column in table.c], select(*copied).where(mine)))


async def _row_calls(
    records: SqlRecords, tenant: TenantId, ids: list[MemoryId], server: psutil.Process | None
) -> dict[str, Any]:
    """By call: median milliseconds, and milliseconds of CPU, the client's and (of a server on this machine) the server's."""
    scope, now = Scope(tenant, UserId("u0")), datetime.now(UTC)
    chosen = ids[:CANDIDATES]
    processes = {"client_cpu_ms": psutil.Process()} | ({"server_cpu_ms": server} if server else {})

    async def write(number: int) -> None:
        memory = new_entry(scope, f"Entry {secrets.token_hex(8)}.", number, now)
        change = Insert(memory, fingerprint(memory.content))
        event = AuditEvent("write", "key load", (memory.id,), now)
        await records.write(
            scope, Lookup(fingerprints=(change.fingerprint,)), lambda _: Plan((change,)), [event], 10**6
        )

    calls: dict[str, Callable[[int], Awaitable[object]]] = {
        f"join {CANDIDATES} hits": lambda _: records.recall_rows(scope, chosen, Filters(), MODEL_KEY, 50),
        "newest 200": lambda _: records.recent(scope, 200),
        "page of 20": lambda _: records.page(scope, Filters(), 20, None),
        "claim, nothing due": lambda _: records.claim_dirty(system_scope(TenantId("nobody")), "w", 32, 30.0, now),
        "sweep a page of 500": lambda _: records.rows_after(system_scope(tenant), None, 500),
        "write an entry": write,
    }
    found: dict[str, Any] = {}
    for name, call in calls.items():
        before = {side: cpu_s(process) for side, process in processes.items()}
        took = await median_ms(call, TIMES)
        calls_made = TIMES + TIMES // 10
        found[name] = {"p50_ms": round(took, 3)} | {
            side: round(1e3 * (cpu_s(process) - before[side]) / calls_made, 3) for side, process in processes.items()
        }
    return found
