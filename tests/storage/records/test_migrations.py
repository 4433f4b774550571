"""The schema: made by migrations, equal to what the code reads and writes, safe when replicas start together."""

import asyncio
import fcntl
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from memory.errors import ConfigError
from memory.ids import MemoryId, TenantId, UserId
from memory.scope import Scope
from storage.records import SqlRecords, check_schema, create_engine, migrate
from storage.records.migrate import current_revision, head_revision
from storage.records.schema import metadata
from tests.contract.record_cases import entry, store

ROOT = Path(__file__).parents[3]
SCRIPTS = ScriptDirectory(str(ROOT / "storage" / "records" / "migrations"))
REVISIONS = [script.revision for script in reversed(list(SCRIPTS.walk_revisions()))]


def url_of(folder: Path) -> str:
    return f"sqlite+aiosqlite:///{folder / 'records.db'}"


def difference(connection: Connection) -> Any:
    return compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata)


async def test_migrated_from_empty_the_schema_is_what_the_code_declares(tmp_path: Path) -> None:
    assert await asyncio.to_thread(migrate, url_of(tmp_path)) == head_revision()
    engine = create_engine(url_of(tmp_path), 30.0)
    assert await engine.read(difference) == []
    await check_schema(engine)
    await engine.dispose()


@pytest.mark.parametrize("revision", REVISIONS)
async def test_each_revision_leads_to_the_head_with_its_data(tmp_path: Path, revision: str) -> None:
    url = url_of(tmp_path)
    assert await asyncio.to_thread(migrate, url, revision) == revision
    alice = Scope(TenantId("t"), UserId("alice"))
    engine = create_engine(url, 30.0)
    records = SqlRecords(engine)
    assert await current_revision(engine) == revision
    await store(records, alice, entry(alice, "m1", "住在北京", entities=("北京",)))
    before = await records.get(alice, MemoryId("m1"))
    await asyncio.to_thread(migrate, url)
    await check_schema(engine)
    assert await engine.read(difference) == []
    assert await records.get(alice, MemoryId("m1")) == before
    await engine.dispose()


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


async def test_replicas_that_start_together_migrate_once(tmp_path: Path) -> None:
    """Three processes and two threads."""
    command = [sys.executable, "-c", f"from storage.records import migrate; print(migrate({url_of(tmp_path)!r}))"]
    processes = [
        await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    threads = [asyncio.to_thread(migrate, url_of(tmp_path)) for _ in range(2)]
    assert set(await asyncio.gather(*threads)) == {head_revision()}
    for process in processes:
        out, err = await process.communicate()
        assert (process.returncode, out.decode().strip()) == (0, head_revision()), err.decode()[-2000:]
    engine = create_engine(url_of(tmp_path), 30.0)
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
