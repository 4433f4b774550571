"""The embedded index: what is peculiar to files, threads, processes and disks."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import numpy as np
import pytest

from memory.errors import ConfigError, DeadlineExceeded, NotFound, Overloaded, Unavailable
from memory.ids import MemoryId, TenantId, UserRef
from memory.scope import system_scope
from storage.index import partition
from storage.index.local import LocalIndex, _Job
from storage.index.partition import file_name
from tests.contract.index_backends import DIMENSION, MODEL, LocalBackend, asking, ids_of, scope, sealed, token, unit

pytestmark = pytest.mark.asyncio
(VECTOR,) = unit(1)


@pytest.fixture
async def local(tmp_path):
    made = LocalBackend(tmp_path / "index")
    yield made
    await made.aclose()


def path_of(local: LocalBackend) -> Path:
    return local.folder / file_name(TenantId("acme"))


@contextmanager
def write_lock(local: LocalBackend) -> Iterator[None]:
    """Held by somebody else, so that writers wait."""
    holder = apsw.Connection(str(path_of(local)))
    holder.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        holder.execute("ROLLBACK")
        holder.close()


def log_of(local: LocalBackend) -> bytes:
    return Path(f"{path_of(local)}-wal").read_bytes()


def open_databases(folder: Path) -> int:
    links = [link for link in Path("/proc/self/fd").iterdir() if link.exists()]
    return sum(link.readlink().parent == folder and link.readlink().suffix == ".db" for link in links)


async def test_p24_file_names_differ_even_where_the_file_system_ignores_case():
    tenants = ["acme", "Acme", "ACME", "aCme", "a-cme", "a_cme", "-", "_", "con", "A" * 64, "a" * 64]
    names = [file_name(TenantId(tenant)) for tenant in tenants]
    assert len({name.lower() for name in names}) == len(tenants)
    assert all(name == name.lower() and len(name) <= 255 for name in names)


async def test_p18_another_models_file_is_refused_with_one_line(local):
    await (await local.open()).upsert(scope(), [sealed("m1", VECTOR, "tea")])
    for model, dimension in [("another_model", DIMENSION), (MODEL, 2 * DIMENSION)]:
        other = LocalIndex(local.folder, model, dimension)
        with pytest.raises(
            ConfigError, match=r"t-acme\.db: holds vectors of the model test_model.*configure that model again"
        ):
            await other.walk(scope(), None, 10)
        with pytest.raises(ConfigError):
            await other.check()
        await other.aclose()
    await (await local.open()).check()
    assert await ids_of(await local.open(), scope()) == ["m1"]


async def test_a_file_of_another_layout_is_refused(local):
    await (await local.open()).upsert(scope(), [sealed("m1", VECTOR)])
    await local.aclose()
    with apsw.Connection(str(path_of(local))) as connection:
        connection.execute("UPDATE meta SET value = 99 WHERE name = 'layout'")
    with pytest.raises(ConfigError, match="another version of Strata"):
        await ids_of(await local.open(), scope())


@pytest.mark.parametrize(
    "garbage", [b"this is no database at all, whatever its name says " * 50, b"SQLite format 3\x00" + b"\xff" * 9_000]
)
async def test_a_damaged_file_is_named_and_left_alone(local, garbage):
    index = local.bare()
    path_of(local).write_bytes(garbage)
    for call in (index.check(), index.walk(scope(), None, 10), index.upsert(scope(), [sealed("m1", VECTOR)])):
        with pytest.raises(ConfigError, match="damaged; move it away"):
            await call
    assert path_of(local).read_bytes() == garbage


async def test_a_folder_that_cannot_be_made_stops_the_start(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match="cannot be made"):
        LocalIndex(tmp_path / "file" / "index", MODEL, DIMENSION)


async def test_a_folder_that_cannot_be_written_stops_the_start(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # the tests may run as root, who can write everywhere
    with pytest.raises(ConfigError, match="cannot be written"):
        LocalIndex(tmp_path, MODEL, DIMENSION)


async def test_ping_tells_a_folder_that_went_away(local):
    index = local.bare()
    await index.ping()
    local.folder.rmdir()
    with pytest.raises(Unavailable):
        await index.ping()


async def test_p27_a_lock_held_by_another_ends_at_the_deadline_and_not_later(local):
    index = await local.open(deadline_s=1.0)
    await (await local.open()).upsert(scope(), [sealed("m1", VECTOR, "tea")])
    with write_lock(local):
        with pytest.raises(DeadlineExceeded):  # or this test would wait for the lock that it holds itself
            await index.upsert(scope(), [sealed("m2", VECTOR, "tea")])
        assert len(await index.search(scope(), asking(VECTOR), 10, 10)) == 1  # readers do not wait for the writer
    await index.upsert(scope(), [sealed("m3", VECTOR, "tea")])
    assert await ids_of(index, scope()) == ["m1", "m3"]


async def test_a_cancelled_write_leaves_nothing_half_written(local):
    index = await local.open(threads=1)  # so that a later call sees what became of it
    await index.upsert(scope(), [sealed("m0", VECTOR, "tea")])
    batch = [sealed(f"m{n}", VECTOR, "tea and much more of it") for n in range(1, 400)]
    for delay in (0.0, 0.001, 0.003, 0.01, 0.02, 0.04):
        task = asyncio.create_task(index.upsert(scope(), batch))
        await asyncio.sleep(delay)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        held = len(await ids_of(index, scope()))
        assert held in (1, 400)
        words = len(await index.search(scope(), asking(None, "tea"), 0, 1_000))
        assert words == held
        await index.remove(scope(), [entry.id for entry in batch])
    with write_lock(local):  # cancelled for certain before it could commit
        task = asyncio.create_task(index.upsert(scope(), batch))
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert await ids_of(index, scope()) == ["m0"]
    await index.upsert(scope(), batch)  # the connections are whole
    assert len(await ids_of(index, scope())) == 400


async def test_p27_a_killed_writer_leaves_whole_batches_only(local):
    command = [sys.executable, "-m", "tests.storage.index.writer", str(local.folder), "forever"]
    for _ in range(3):
        writer = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        last = -1
        for _ in range(8):
            last = int(await writer.stdout.readline())
        writer.kill()
        await writer.wait()
        index = await local.open()
        ids = await ids_of(index, scope())
        batches = {id.split("-")[0] for id in ids}
        assert len(ids) == 20 * len(batches)
        assert {f"b{n}" for n in range(last + 1)} <= batches  # what was acknowledged is there
        hits = await index.search(scope(), asking(VECTOR, "tea"), 1_000, 1_000)
        assert sum(hit.cosine is not None for hit in hits) == sum(hit.bm25 is not None for hit in hits) == len(ids)
        await index.remove(scope(), ids)


async def test_a_full_disk_is_unavailable_and_leaves_nothing_corrupt(local):
    command = [sys.executable, "-m", "tests.storage.index.writer", str(local.folder), "full"]
    writer = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    output, errors = await writer.communicate()
    assert writer.returncode == 0, errors.decode()
    assert b"full" in output
    ids = await ids_of(await local.open(), scope())
    stored = 20 * (len(output.splitlines()) - 1)
    assert len(ids) == stored + 2 and {"before", "after"} <= set(ids)
    with apsw.Connection(str(path_of(local))) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def test_more_calls_than_the_queue_holds_are_told_to_come_back(local):
    index = await local.open(threads=1, queue=2)
    await index.upsert(scope(), [sealed("m", VECTOR, "tea")])
    with write_lock(local):
        calls = [asyncio.create_task(index.upsert(scope(), [sealed(f"m{n}", VECTOR, "tea")])) for n in range(10)]
        await asyncio.sleep(0.2)
        refused = [call for call in calls if call.done() and isinstance(call.exception(), Overloaded)]
    assert len(refused) == 7
    await asyncio.gather(*(call for call in calls if call not in refused))
    assert len(await ids_of(index, scope())) == 4  # and there is room again


async def test_no_more_files_stay_open_than_allowed(local):
    index = await local.open(open_files=3)
    for n in range(20):
        await index.ensure_tenant(scope(tenant=f"t{n}"))
        await index.upsert(scope(tenant=f"t{n}"), [sealed("m1", VECTOR, "tea")])
    assert 1 <= open_databases(local.folder) <= 3
    assert await ids_of(index, scope(tenant="t0")) == ["m1"]


async def test_what_is_kept_in_memory_is_bounded_and_never_stale(local):
    index = await local.open(cache_bytes=DIMENSION * 4 * 10)
    vectors = unit(40)
    for user in range(4):
        await index.upsert(scope(), [sealed(f"m{user}-{n}", vectors[n], user=f"u{user}") for n in range(8)])
    for _ in range(2):
        for user in range(4):
            hits = await index.search(scope(), asking(vectors[3], user=f"u{user}"), 3, 0)
            assert hits[0].id == f"m{user}-3"
    assert index._cache._bytes <= DIMENSION * 4 * 10 and len(index._cache._kept) == 1
    await index.remove(scope(), [MemoryId("m3-3")])
    assert index._cache._bytes == 0
    await index.upsert(scope(), [sealed(f"big{n}", vectors[n], user="big") for n in range(40)])
    assert len(await index.search(scope(), asking(vectors[3], user="big"), 40, 0)) == 40
    assert index._cache._bytes == 0  # larger than the whole bound: read each time


async def test_a_scrub_waits_for_readers_and_gives_up_at_its_deadline(local, monkeypatch):
    index = await local.open()
    await index.upsert(scope(), [sealed("m1", VECTOR, "tea")])
    reader = apsw.Connection(str(path_of(local)))
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM entries").fetchall()
    await index.remove(scope(), [MemoryId("m1")])
    with monkeypatch.context() as patched, pytest.raises(DeadlineExceeded):
        patched.setattr("storage.index.local._LONG_S", 0.3)
        await index.scrub(scope())
    reader.execute("COMMIT")
    reader.close()
    await index.scrub(scope())
    assert log_of(local) == b""


async def test_p26_after_a_scrub_no_copy_of_a_moved_row_is_left(local):
    """Rows of a tree move between pages as it grows, and leave copies that deleting the row doesn't reach."""
    index = await local.open()
    vectors, random = unit(20), np.random.default_rng(7)
    for batch in range(60):
        for user in ("gone", "kept"):
            await index.upsert(
                scope(),
                [
                    sealed(
                        f"{user}{batch}-{n}",
                        vectors[n],
                        " ".join(f"{user}{w}" for w in random.integers(0, 999, 25)),
                        user=user,
                    )
                    for n in range(20)
                ],
            )
        if batch % 3 == 0:
            await index.remove(scope(), [MemoryId(f"gone{batch}-{n}") for n in range(7)])
    words = {user: [token(f"{user}{n}").encode() for n in range(999)] for user in ("gone", "kept")}
    assert await index.remove_user(scope(), UserRef("gone")) == 60 * 20 - 20 * 7
    await index.scrub(scope())
    raw = await local.raw_bytes()
    assert not any(word in raw for word in words["gone"]) and b"gone" not in raw
    assert sum(word in raw for word in words["kept"]) > 900
    assert await index.count(scope(), None) == 60 * 20


async def test_what_is_kept_in_memory_follows_every_kind_of_change(local):
    """Another process's writes, looked at after each: added in the middle, replaced, removed, moved to another user, removed and added."""
    here, there = await local.open(), await local.open()
    vectors, random = unit(300), np.random.default_rng(3)
    expected: dict[str, tuple[str, int]] = {}

    async def agree():
        for user in ("u1", "u2"):
            hits = await here.search(scope(), asking(vectors[0], user=user), 1_000, 0)
            mine = {id: row for id, (owner, row) in expected.items() if owner == user}
            assert {hit.id: hit.cosine for hit in hits} == pytest.approx(
                {id: float(vectors[row] @ vectors[0]) for id, row in mine.items()}, abs=1e-6
            )
            assert [hit.cosine for hit in hits] == sorted((hit.cosine for hit in hits), reverse=True)

    for version in range(1, 60):
        ids = [f"m{n}" for n in random.integers(0, 40, random.integers(1, 9))]
        if version % 4 == 0:
            await there.remove(scope(), [MemoryId(id) for id in ids])
            expected = {id: about for id, about in expected.items() if id not in ids}
        if version % 4 != 0 or version % 8 == 0:
            user, row = f"u{random.integers(1, 3)}", int(random.integers(0, 300))
            await there.upsert(scope(), [sealed(id, vectors[row], user=user, version=version) for id in ids])
            expected |= dict.fromkeys(ids, (user, row))
        await agree()


async def test_a_file_that_was_made_anew_is_not_taken_for_the_one_before(local):
    """An operator moved the damaged file away and had everything indexed again."""
    old, new = unit(2)
    index = local.bare(open_files=0)
    for vector in (old, new):
        await index.ensure_tenant(scope())
        await index.upsert(scope(), [sealed("m1", vector)])
        (hit,) = await index.search(scope(), asking(vector), 5, 0)
        assert hit.cosine == pytest.approx(1, abs=1e-5)
        for file in local.folder.iterdir():
            file.unlink()


async def test_after_close_it_is_unavailable(local):
    index = await local.open()
    await index.upsert(scope(), [sealed("m1", VECTOR, "tea")])
    await index.aclose()
    await index.aclose()
    with pytest.raises(Unavailable):
        await ids_of(index, scope())
    assert sorted(path.name for path in local.folder.iterdir()) == ["t-acme.db"]  # the log is folded in


async def test_another_process_between_file_and_schema_is_no_index_yet(local):
    index = local.bare()
    path_of(local).touch()
    assert await ids_of(index, scope()) == [] and await index.tenants(system_scope()) == set()
    with pytest.raises(NotFound):
        await index.upsert(scope(), [sealed("m1", VECTOR)])
    await (await local.open()).upsert(scope(), [sealed("m1", VECTOR)])
    assert await ids_of(await local.open(), scope()) == ["m1"]


async def test_a_call_that_was_cancelled_while_it_waited_never_starts(local):
    index = await local.open(threads=1)
    await index.upsert(scope(), [sealed("m0", VECTOR)])
    with write_lock(local):
        busy = asyncio.create_task(index.upsert(scope(), [sealed("busy", VECTOR, "tea")]))
        waiting = asyncio.create_task(index.upsert(scope(), [sealed("late", VECTOR)]))
        await asyncio.sleep(0.1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    await busy
    assert waiting.cancelled()
    assert await ids_of(index, scope()) == ["busy", "m0"]


async def test_a_commit_after_the_deadline_is_refused(local):
    """A worker that is stalled in the middle of a transaction must not commit when it wakes up."""
    index = await local.open()
    await index.upsert(scope(), [sealed("m0", VECTOR)])
    job = _Job(5.0)
    connection = partition.connect(path_of(local), MODEL, DIMENSION, False, job.keep_waiting)
    job.start(connection)
    with pytest.raises(apsw.ConstraintError), partition.writing(connection):
        connection.execute("DELETE FROM entries")
        job.cancel()
    assert not connection.in_transaction
    connection.close()
    with pytest.raises(apsw.InterruptError):
        job.start(connection)
    assert not job.keep_waiting(0)
    assert await ids_of(index, scope()) == ["m0"]


async def test_waiting_for_a_lock_is_jittered_and_bounded(monkeypatch):
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    for tries, jitter in ((0, 0.0), (0, 1.0), (50, 0.0), (50, 1.0)):
        partition.pause(tries, jitter)
    assert slept == pytest.approx([0.0005, 0.0015, 0.025, 0.075])
