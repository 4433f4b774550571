"""The schema: made by migrations, equal to what the code reads and writes, safe when replicas start together."""

import asyncio
import fcntl
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from memory.entry import Status
from memory.errors import ConfigError, NotFound
from memory.ids import MemoryId, TenantId, UserId
from memory.scope import Scope, system_scope
from storage.protocols import Filters, Lookup, Plan
from storage.records import SqlRecords, SqlTenants, SqlVersions, check_schema, create_engine, migrate
from storage.records.migrate import current_revision, head_revision
from storage.records.schema import metadata
from tests.contract.record_cases import entry, event, index_all, later, store
from tests.storage.records.databases import PATIENT_S, empty_database
from tests.storage.records.revisions import AT, REVISIONS_WITH_DATA, fill

ROOT = Path(__file__).parents[3]
SCRIPTS = ScriptDirectory(str(ROOT / "storage" / "records" / "migrations"))
REVISIONS = [script.revision for script in reversed(list(SCRIPTS.walk_revisions()))]
ALICE = Scope(TenantId("t"), UserId("alice"))
SYSTEM = system_scope()


@pytest.fixture(params=["sqlite", "mysql", "mariadb", "postgres"])
async def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    server = None if request.param == "sqlite" else request.getfixturevalue(request.param)
    async with empty_database(server, tmp_path) as url:
        yield url


def url_of(folder: Path) -> str:
    return f"sqlite+aiosqlite:///{folder / 'records.db'}"


def difference(connection: Connection) -> Any:
    return compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata)


def test_every_revision_has_data_to_lead_on() -> None:
    assert set(REVISIONS_WITH_DATA) == set(REVISIONS)


async def test_migrated_from_empty_the_schema_is_what_the_code_declares(empty_url: str) -> None:
    assert await asyncio.to_thread(migrate, empty_url) == head_revision()
    engine = create_engine(empty_url, PATIENT_S)
    assert await engine.read(difference) == []
    await check_schema(engine)
    await engine.dispose()


@pytest.mark.parametrize("revision", REVISIONS)
async def test_each_revision_leads_to_the_head_with_its_data(empty_url: str, revision: str) -> None:
    assert await asyncio.to_thread(migrate, empty_url, revision) == revision
    engine = create_engine(empty_url, PATIENT_S)
    assert await current_revision(engine) == revision
    await engine.write(lambda connection: fill(connection, revision))
    await asyncio.to_thread(migrate, empty_url)
    await check_schema(engine)
    assert await engine.read(difference) == []

    records, tenants, versions = SqlRecords(engine), SqlTenants(engine), SqlVersions(engine)
    found = await records.get(ALICE, MemoryId("m1"))
    assert (found.content, found.entities, found.metadata, found.created_at) == ("住在北京", ("北京",), {"k": "值"}, AT)
    assert [r.content for r in await records.history(ALICE, MemoryId("m1"))] == ["住在上海", "住在北京"]
    assert (await records.get(ALICE, MemoryId("m0"))).status is Status.OUTDATED
    (row,) = await records.recall_rows(ALICE, [MemoryId("m1")], Filters(entity="北京"), "model_8", 0)
    assert row.tokens is not None and row.tokens.tobytes() == bytes(range(6)) and row.predecessor is not None
    with pytest.raises(NotFound):
        await records.get(ALICE, MemoryId("gone"))
    pending, done = await records.receipt(ALICE, "rcp_1"), await records.receipt(ALICE, "rcp_2")
    assert (pending.completed_at, pending.stores["index"].after) == (None, None)
    assert (done.completed_at, done.stores["records"].after, done.stores["index"].after) == (AT, 0, 0)
    assert (await records.backlog(SYSTEM)).oldest == AT
    shop = await tenants.tenant(SYSTEM, TenantId("t"))
    assert (shop.policy, shop.suspended, shop.erasing) == ({"a": 1}, False, False)
    assert (await tenants.key(SYSTEM, "key_1")).expires_at == AT
    assert (await records.user_key(ALICE, fail)).wrapped == b"wrapped"
    assert await records.tenant_users(system_scope(TenantId("t")), None, 10) == ["alice", "bob"]
    assert len(await versions.versions(SYSTEM)) == (revision > "0001")
    seen: list[str] = []
    for subject in ("home", "home:city"):
        lookup = Lookup(subjects=(subject,), unindexed=0)
        await records.write(ALICE, lookup, lambda found: seen.extend(m.id for m in found) or Plan(()), [], 10)  # type: ignore[func-returns-value]
    assert seen == ["m1", "m1"]

    bob = Scope(TenantId("t"), UserId("bob"))  # what is new works with what is old
    receipt = await records.erase_user(bob, event("erase"))
    assert receipt.count == 1
    await store(records, ALICE, entry(ALICE, "m2", "New."))
    await index_all(records, ALICE)
    assert (await records.receipt(ALICE, "rcp_1")).completed_at is not None
    assert {e.receipt_id for e in await records.claim_erasures(SYSTEM, "w", 10, 30, later(1))} >= {receipt.id}
    await engine.dispose()


def fail() -> Any:
    raise AssertionError("the key was not found")


async def test_an_empty_or_older_database_stops_the_start(tmp_path: Path) -> None:
    engine = create_engine(url_of(tmp_path), 30.0)
    assert await current_revision(engine) is None
    with pytest.raises(ConfigError, match="strata up"):
        await check_schema(engine)
    await engine.dispose()


async def test_a_later_releases_database_stops_the_start_and_is_left_alone(tmp_path: Path) -> None:
    await asyncio.to_thread(migrate, url_of(tmp_path))
    with sqlite3.connect(tmp_path / "records.db") as raw:
        raw.execute("UPDATE alembic_version SET version_num = '9999'")
    engine = create_engine(url_of(tmp_path), 30.0)
    with pytest.raises(ConfigError, match="later release"):
        await check_schema(engine)
    with pytest.raises(ConfigError, match="later release"):
        await asyncio.to_thread(migrate, url_of(tmp_path))
    assert await current_revision(engine) == "9999"
    await engine.dispose()


async def test_replicas_that_start_together_migrate_once(empty_url: str) -> None:
    """Three processes and two threads."""
    command = [sys.executable, "-c", f"from storage.records import migrate; print(migrate({empty_url!r}))"]
    processes = [
        await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    threads = [asyncio.to_thread(migrate, empty_url) for _ in range(2)]
    assert set(await asyncio.gather(*threads)) == {head_revision()}
    for process in processes:
        out, err = await process.communicate()
        assert (process.returncode, out.decode().strip()) == (0, head_revision()), err.decode()[-2000:]
    engine = create_engine(empty_url, PATIENT_S)
    assert await engine.read(difference) == []
    await engine.dispose()


async def test_p26_a_migration_that_was_killed_is_done_by_the_next_start(empty_url: str) -> None:
    """kill -9 after every twelfth statement that changes the schema: MySQL keeps what was done before it, the others nothing."""
    code = (
        "import os, sys\n"
        "from sqlalchemy import event\n"
        "from sqlalchemy.engine import Engine\n"
        "left = [12]\n"
        "def count(connection, cursor, statement, *rest):\n"
        "    if statement.lstrip().upper().startswith(('CREATE', 'ALTER', 'DROP', 'INSERT')):\n"
        "        left[0] -= 1\n"
        "        if left[0] == 0: os.kill(os.getpid(), 9)\n"
        "event.listen(Engine, 'after_cursor_execute', count)\n"
        "from storage.records import migrate\n"
        f"print(migrate({empty_url!r}))\n"
    )
    transactional = not empty_url.startswith("mysql")
    for round_ in range(40):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        _, err = await process.communicate()
        assert process.returncode in (0, -9), err.decode()[-2000:]
        if process.returncode == 0 or (transactional and round_ == 1):
            break
    assert await asyncio.to_thread(migrate, empty_url) == head_revision()
    engine = create_engine(empty_url, PATIENT_S)
    assert await engine.read(difference) == []
    await engine.dispose()


async def test_a_migration_that_never_ends_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "records.db.migration.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(ConfigError, match="another migration"):
        await asyncio.to_thread(migrate, url_of(tmp_path), "head", 0.2)
    os.close(descriptor)
    assert await asyncio.to_thread(migrate, url_of(tmp_path), "head", 0.2) == head_revision()


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///:memory:", "oracle://x/y", "nonsense", "", "sqlite:////proc/nowhere/records.db"]
)
def test_a_url_that_cannot_work_is_one_line_and_leaves_nothing(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as stopped:
        migrate(url)
    assert "\n" not in str(stopped.value)
    assert list(tmp_path.iterdir()) == []


async def test_a_file_that_is_no_database_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "records.db").write_bytes(b"not a database, but long enough to look at" * 100)
    with pytest.raises(ConfigError, match="cannot be opened"):
        await asyncio.to_thread(migrate, url_of(tmp_path))
