"""The contract of RecordStore under concurrent callers, in one process and in several, and when one of them is killed."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Select, and_, func, or_, select

from memory.entry import Memory
from memory.ids import MemoryId, UserId
from memory.scope import Scope
from storage.protocols import Filters, Insert, Lookup, Page, Plan, Update
from storage.records import Database, SqlRecords
from storage.records.schema import dirty, memories, memory_entities, memory_tokens, memory_turns, receipts, revisions
from tests.contract.record_backends import PATIENT_S
from tests.contract.record_cases import MANY, NOON, change, entry, event, index_all, say, store
from tests.contract.record_writer import GO

ROOT = Path(__file__).parents[2]


@asynccontextmanager
async def writers(
    url: str, scope: Scope, mode: str, names: list[str], count: int
) -> AsyncIterator[list[asyncio.subprocess.Process]]:
    """Processes that are connected and have been told to go; none outlives the test."""
    arguments = [[url, scope.tenant_id, mode, name, str(count)] for name in names]
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.contract.record_writer",
            *argument,
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        for argument in arguments
    ]
    try:
        for process in processes:
            assert process.stdin is not None and process.stdout is not None
            assert (await process.stdout.readline()).decode().strip() == GO
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(b"\n")
        yield processes
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def output(process: asyncio.subprocess.Process) -> list[str]:
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()[-2000:]
    return out.decode().split("\n")[:-1]


async def test_p9_p11_a_burst_of_one_fact_makes_one_entry(records: SqlRecords, alice: Scope) -> None:
    await asyncio.gather(
        *(
            records.write(alice, Lookup(), say(alice, f"m{i}", "I'm allergic to peanuts", turns=[f"t{i}"]), [], MANY)
            for i in range(40)
        )
    )
    (only,) = (await records.page(alice, Filters(), 100, None)).items
    assert only.hit_count == 40
    assert set(only.turn_ids) == {f"t{i}" for i in range(40)}


async def test_p11_two_processes_saying_one_fact_make_one_entry(
    records_url: str, records: SqlRecords, alice: Scope
) -> None:
    async with writers(records_url, alice, "same", ["left", "right"], 20) as processes:
        said = await asyncio.gather(*(output(p) for p in processes))
    (only,) = (await records.page(alice, Filters(), 100, None)).items
    assert only.hit_count == 40
    assert set(only.turn_ids) == {turn for turns in said for turn in turns}


async def test_p27_three_processes_write_at_once_and_nothing_is_locked_or_lost(
    records_url: str, records: SqlRecords, alice: Scope
) -> None:
    names = ["left", "right", "middle"]
    async with writers(records_url, alice, "own", names, 40) as processes:
        mine = [entry(alice, f"here-{i}", f"here {i}") for i in range(30)]
        await asyncio.gather(*(store(records, alice, memory) for memory in mine))
        said = await asyncio.gather(*(output(p) for p in processes))
    there = {m.id for m in (await records.page(alice, Filters(), 1000, None)).items}
    assert there == {i for ids in said for i in ids} | {m.id for m in mine}
    assert len(there) == 150


async def test_p27_concurrent_changes_of_one_entry_are_all_made(records: SqlRecords, alice: Scope) -> None:
    """A read that is followed by a write sees what was written before it: none of 40 increments is lost."""
    await store(records, alice, entry(alice, "m1", hit_count=0))

    def increment(found: Sequence[Memory]) -> Plan:
        (memory,) = found
        return Plan((Update(replace(memory, hit_count=memory.hit_count + 1), "confirmed", reindex=False),))

    lookup = Lookup(near=(MemoryId("m1"),), unindexed=0)
    await asyncio.gather(*(records.write(alice, lookup, increment, [], MANY) for _ in range(40)))
    assert (await records.get(alice, MemoryId("m1"))).hit_count == 40


async def test_p34_a_retry_that_overtakes_its_first_try_makes_one_entry(records: SqlRecords, alice: Scope) -> None:
    plan = Plan((Insert(entry(alice, "m1"), "f"),))
    await asyncio.gather(*(records.write(alice, Lookup(), lambda _: plan, [], MANY) for _ in range(10)))
    assert len(await records.history(alice, MemoryId("m1"))) == 1


@pytest.mark.parametrize("delay_s", [0.03, 0.08, 0.15, 0.3])
async def test_p26_a_killed_process_leaves_nothing_half_done(
    records_url: str, records: SqlRecords, database: Database, alice: Scope, delay_s: float
) -> None:
    """kill -9 at whatever step it is in: every row has all that belongs to it and nothing else has anything; what was
    acknowledged is there, what was deleted is not, and a curator finishes what was begun."""
    async with writers(records_url, alice, "churn", ["left", "right"], 100_000) as processes:
        await asyncio.sleep(delay_s)
        for process in processes:
            process.kill()
        said = [
            line.split()
            for p in processes
            for line in (await p.communicate())[0].decode().split("\n")[:-1]  # the last one may be cut off
            if " " in line
        ]
    stored, deleted = ({i for what, i in said if what == verb} for verb in ("stored", "deleted"))
    there = {m.id for m in (await records.page(alice, Filters(), MANY, None)).items}
    assert stored - deleted - there <= maybe_deleted(stored)  # at most the last of each may be deleted unannounced
    assert not deleted & there
    await whole(database, alice)

    await asyncio.sleep(0.06)  # the dead ones' leases
    await index_all(records, alice)
    await whole(database, alice)
    tenant = memories.c.tenant_id == alice.tenant_id
    assert (
        await number(database, select(func.count()).select_from(dirty).where(dirty.c.tenant_id == alice.tenant_id)) == 0
    )
    assert (
        await number(
            database, select(func.count()).select_from(memories).where(tenant, memories.c.deleted_at.is_not(None))
        )
        == 0
    )
    pending = (
        select(func.count())
        .select_from(receipts)
        .where(receipts.c.tenant_id == alice.tenant_id, or_(receipts.c.completed_at.is_(None), receipts.c.pending != 0))
    )
    assert await number(database, pending) == 0
    untold = (
        select(func.count())
        .select_from(memories)
        .outerjoin(
            memory_tokens,
            and_(
                memory_tokens.c.tenant_id == memories.c.tenant_id,
                memory_tokens.c.memory_id == memories.c.id,
                memory_tokens.c.version == memories.c.version,
            ),
        )
    )
    assert await number(database, untold.where(tenant, memory_tokens.c.memory_id.is_(None))) == 0


def maybe_deleted(stored: set[str]) -> set[str]:
    last: dict[str, int] = {}
    for memory_id in stored:
        name, n = memory_id.split("-")
        last[name] = max(last.get(name, 0), int(n))
    return {f"{name}-{n}" for name, n in last.items()}


async def number(database: Database, query: Select[Any]) -> int:
    return await database.read(lambda connection: int(connection.execute(query).scalar_one()))


async def whole(database: Database, scope: Scope) -> None:
    """Every live row has its history and turns, every tombstone has none and is dirty; no child is without its row."""
    m = memories.c
    for table, least in ((revisions, 1), (memory_turns, 1), (memory_entities, 1), (memory_tokens, 0), (dirty, 0)):
        kept = (
            select(func.count()).select_from(table).where(table.c.tenant_id == m.tenant_id, table.c.memory_id == m.id)
        )
        children = kept.scalar_subquery()
        rows = select(m.deleted_at, children).where(m.tenant_id == scope.tenant_id)
        for deleted_at, many in await database.read(lambda c, rows=rows: list(c.execute(rows))):
            if deleted_at is None:
                assert many >= least, table.name
            else:
                assert many == (1 if table is dirty else 0), table.name
        its_row = and_(table.c.tenant_id == m.tenant_id, table.c.memory_id == m.id)
        held = select(func.count()).select_from(table.outerjoin(memories, its_row))
        assert await number(database, held.where(table.c.tenant_id == scope.tenant_id, m.id.is_(None))) == 0


async def test_p36_a_cancelled_call_leaves_its_answer_to_nobody(records_url: str, alice: Scope) -> None:
    """Hundreds of calls cut off in the middle on a pool of two; what others ask meanwhile and afterwards is answered with their
    own."""
    engine = Database(records_url, deadline_s=PATIENT_S, connections=1)
    records, bob = SqlRecords(engine), replace(alice, user_id=UserId("bob"))
    await store(records, alice, *(entry(alice, f"m{i}", f"fact {i}", at=NOON) for i in range(50)))
    await store(records, bob, *(entry(bob, f"b{i}", f"bob's {i}", at=NOON) for i in range(10)))
    cancelled = 0
    for round_ in range(40):
        cut: list[asyncio.Task[Any]] = [asyncio.create_task(records.get(alice, MemoryId(f"m{i}"))) for i in range(8)]
        cut.append(asyncio.create_task(records.page(alice, Filters(), 50, None)))
        cut.append(asyncio.create_task(change(records, alice, "m49", content=f"round {round_}")))
        await asyncio.sleep(0.0005 * (round_ % 8))
        for task in cut:
            task.cancel()
        asked = await asyncio.gather(*(records.get(bob, MemoryId(f"b{i}")) for i in range(10)))
        assert [m.content for m in asked] == [f"bob's {i}" for i in range(10)]
        ended = await asyncio.gather(*cut, return_exceptions=True)
        cancelled += sum(isinstance(end, asyncio.CancelledError) for end in ended)
        assert all(isinstance(end, asyncio.CancelledError | Memory | Page) for end in ended), ended
    assert cancelled > 0
    asked = await asyncio.gather(*(records.get(alice, MemoryId(f"m{i}")) for i in range(49)))
    assert [m.content for m in asked] == [f"fact {i}" for i in range(49)]
    await records.delete(alice, [MemoryId("m0")], event("delete"))
    await engine.dispose()
