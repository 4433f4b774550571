"""The connection to SQL: deadlines, contention, errors, and bytes that are gone."""

import asyncio
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from memory.errors import Conflict, DeadlineExceeded, Overloaded, StrataError, Unavailable
from memory.ids import MemoryId, TenantId, UserId
from memory.scope import Scope
from storage.protocols import Filters
from storage.records import Database, SqlRecords, create_engine, migrate
from storage.records.engine import _within
from tests.contract.record_cases import MODEL, change, entry, event, index_all, store

ROOT = Path(__file__).parents[3]
ALICE = Scope(TenantId("t"), UserId("alice"))


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    await asyncio.to_thread(migrate, f"sqlite:///{tmp_path / 'records.db'}")
    return tmp_path / "records.db"


@pytest.fixture
async def engine(path: Path) -> AsyncIterator[Database]:
    engine = create_engine(f"sqlite:///{path}", 30.0)
    yield engine
    await engine.dispose()


async def pragma(engine: Database, name: str) -> object:
    return await engine.read(lambda c: c.exec_driver_sql(f"PRAGMA {name}").scalar())


async def test_sqlite_is_set_up_to_keep_what_it_acknowledged_and_to_forget_for_good(engine: Database) -> None:
    names = ("journal_mode", "synchronous", "foreign_keys", "secure_delete")
    assert [await pragma(engine, name) for name in names] == ["wal", 2, 1, 1]


async def test_p27_a_writer_that_holds_the_database_is_waited_for(path: Path, engine: Database) -> None:
    """Longer than SQLite's own patience; readers do not wait at all."""
    records = SqlRecords(engine)
    raw = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    raw.execute("BEGIN IMMEDIATE")
    writing = asyncio.create_task(store(records, ALICE, entry(ALICE, "m1")))
    await asyncio.sleep(0.6)
    assert (await records.page(ALICE, Filters(), 1, None)).items == ()
    assert not writing.done()
    raw.execute("COMMIT")
    raw.close()
    await writing
    assert (await records.get(ALICE, MemoryId("m1"))).content


async def test_a_writer_that_never_lets_go_is_a_deadline_and_nothing_is_changed(path: Path) -> None:
    engine = create_engine(f"sqlite:///{path}", 0.5)
    records = SqlRecords(engine)
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    results = await asyncio.gather(
        *(store(records, ALICE, entry(ALICE, f"m{i}", f"fact {i}")) for i in range(5)), return_exceptions=True
    )
    assert time.monotonic() - began < 60
    assert [type(result) for result in results] == [DeadlineExceeded] * 5
    raw.execute("COMMIT")
    raw.close()
    await asyncio.sleep(0.5)  # what was given up must not be written after all
    await engine.dispose()
    again = create_engine(f"sqlite:///{path}", 30.0)
    assert (await SqlRecords(again).page(ALICE, Filters(), 10, None)).items == ()
    await store(SqlRecords(again), ALICE, entry(ALICE, "m1"))
    await again.dispose()


async def test_a_deadline_that_passes_within_the_transaction_undoes_it(path: Path) -> None:
    engine = create_engine(f"sqlite:///{path}", 0.3)

    def slow(connection: Connection) -> None:
        connection.execute(text("DELETE FROM alembic_version"))
        time.sleep(0.8)

    with pytest.raises(DeadlineExceeded):
        await engine.write(slow)
    await engine.dispose()
    with sqlite3.connect(path) as raw:
        assert raw.execute("SELECT count(*) FROM alembic_version").fetchone() == (1,)


async def test_a_deadline_holds_where_its_cancellation_is_swallowed() -> None:
    """As a driver's `wait_for` did when a connection was handed over in the same moment: one call in a hundred on a stalled server."""
    swallowed = 0

    async def deaf() -> None:
        nonlocal swallowed
        while swallowed < 2:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                swallowed += 1
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await _within(0.05, deaf)
    task = asyncio.current_task()
    assert swallowed == 2 and task is not None and task.cancelling() == 0
    async with asyncio.timeout(30):  # a later deadline of the same task is its own
        await asyncio.sleep(0)
    assert await _within(30, lambda: asyncio.sleep(0, "answer")) == "answer"


async def test_a_cancelled_caller_is_cancelled_not_late() -> None:
    started = asyncio.Event()

    async def wait() -> None:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(_within(30, wait))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_more_calls_than_the_bound_are_refused(path: Path) -> None:
    engine = Database(f"sqlite:///{path}", deadline_s=30.0, max_waiting=3)
    calls = [asyncio.create_task(engine.write(lambda _: time.sleep(0.2))) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await engine.read(lambda connection: connection.execute(text("SELECT 1")).scalar())
    await asyncio.gather(*calls)
    assert await engine.read(lambda connection: connection.execute(text("SELECT 1")).scalar()) == 1
    await engine.dispose()


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("SELECT secret_text FROM nowhere", Unavailable),
        ("INSERT INTO tenants (id, display_name, version) VALUES ('secret_text', NULL, 1)", Conflict),
    ],
)
async def test_the_servers_own_words_stay_with_the_server(
    engine: Database, statement: str, error: type[StrataError]
) -> None:
    with pytest.raises(error) as raised:
        await engine.write(lambda connection: connection.execute(text(statement)))
    assert raised.value.__cause__ is None and raised.value.__suppress_context__
    assert "secret_text" not in f"{raised.value!r} {raised.value.detail}"


async def test_a_database_that_is_gone_is_unavailable(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'no' / 'folder' / 'records.db'}", 1.0)
    with pytest.raises(Unavailable):
        await SqlRecords(engine).ping()
    await engine.dispose()


_UNTIL_FULL = """
import asyncio, os, resource, sys
import structlog
from memory.errors import Unavailable
from memory.ids import MemoryId, TenantId, UserId
from memory.scope import Scope
from storage.records import SqlRecords, create_engine
from tests.contract.record_cases import entry, event, store

ALICE = Scope(TenantId("t"), UserId("alice"))
structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # what is printed is what was acknowledged

async def main(path):
    engine = create_engine(f"sqlite:///{path}", 30.0)
    records = SqlRecords(engine)
    await store(records, ALICE, entry(ALICE, "m-first"))
    full = os.path.getsize(f"{path}-wal") + 300_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (full, resource.RLIM_INFINITY))  # the kernel refuses every byte beyond
    for i in range(1000):
        try:
            await store(records, ALICE, entry(ALICE, f"m{i}", f"fact {i} " + "x" * 20_000))
        except Unavailable:
            break
        print(f"m{i}", flush=True)
    else:
        sys.exit("never full")
    assert (await records.get(ALICE, MemoryId("m-first"))).content  # it still answers
    try:
        await store(records, ALICE, entry(ALICE, "again", "y" * 400_000))
        sys.exit("still full")
    except Unavailable:
        pass
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await store(records, ALICE, entry(ALICE, "space-again"))
    print("space-again", flush=True)
    await engine.dispose()

asyncio.run(main(sys.argv[1]))
"""


async def test_a_full_disk_is_a_clear_error_and_breaks_nothing(path: Path, engine: Database) -> None:
    """Writes are refused by the kernel in the middle of the log; what was acknowledged is there, nothing else is, and the same
    process goes on when there is space again."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _UNTIL_FULL, str(path), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()[-2000:]
    acknowledged = {"m-first", *out.decode().split()}
    assert len(acknowledged) > 3 and "space-again" in acknowledged
    there = {m.id for m in (await SqlRecords(engine).page(ALICE, Filters(), 2000, None)).items}
    assert there == acknowledged
    assert await pragma(engine, "integrity_check") == "ok"


async def test_p25_a_verified_deletion_leaves_no_byte_in_any_file(path: Path, engine: Database) -> None:
    """L10: physical. Content, subject, earlier wording, names: gone from the database and from its log."""
    records = SqlRecords(engine)
    words = ["Zanzibar", "Quokkaland", "桑给巴尔"]
    said = entry(ALICE, "m1", f"Born in {words[0]}, {words[2]}", subject=f"born:{words[0]}", entities=(words[0],))
    await store(records, ALICE, said, entry(ALICE, "m2", "Likes tea."))
    await change(records, ALICE, "m1", content=f"Born in {words[1]}")
    await index_all(records, ALICE)

    def found() -> set[str]:
        files = b"".join(f.read_bytes() for f in path.parent.iterdir())
        return {word for word in words if word.encode() in files}

    assert found() == set(words)
    receipt = await records.delete(ALICE, [MemoryId("m1")], event("delete"))
    await index_all(records, ALICE)
    assert (await records.receipt(ALICE, receipt.id)).completed_at is not None
    assert found() == set()
    (row,) = await records.recall_rows(ALICE, [MemoryId("m2")], Filters(), MODEL, 0)
    assert row.memory.content == "Likes tea."


async def test_a_reader_in_the_log_puts_off_the_proof_of_a_deletion(path: Path, engine: Database) -> None:
    records = SqlRecords(engine)
    await store(records, ALICE, entry(ALICE, "m1"))
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("BEGIN")
    raw.execute("SELECT count(*) FROM memories").fetchone()
    await records.delete(ALICE, None, event("delete"))
    assert not await engine.scrub()
    raw.execute("COMMIT")
    raw.close()
    assert await engine.scrub()
