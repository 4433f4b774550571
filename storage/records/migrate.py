"""Bringing a database to this release's schema, and refusing to run on any other."""

import asyncio
import fcntl
import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, NullPool, TextClause, inspect, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from memory.errors import ConfigError
from storage.records.engine import Database, contended, database_url
from storage.records.sqlite import IMMEDIATE, sqlite_engine

T = TypeVar("T")

_POLL_S = 0.05
_ANSWER_S = 30.0
_BUSY_S = 60.0
_HERE = Path(__file__).parent / "migrations"


def migrate(url: str, revision: str = "head", wait_s: float = 60.0, limit_s: float = 3600.0) -> str:
    """Upgrade the database at `url` to `revision` and return the revision that it has then. Replicas that start together take
    turns: the first migrates, the others find it done. ConfigError where the lock is not free within `wait_s`, where the
    database cannot be opened, was made by a later release, or has not changed a large table within `limit_s`: what was done
    so far counts where the database says so, and the next start goes on. Blocks; within an event loop, call it in a thread."""
    return asyncio.run(_limited(database_url(url), revision, wait_s, limit_s))


async def _limited(parsed: URL, revision: str, wait_s: float, limit_s: float) -> str:
    try:
        async with asyncio.timeout(limit_s):
            return await _migrate(parsed, revision, wait_s)
    except TimeoutError:
        where = parsed.render_as_string(hide_password=True)
        raise ConfigError(
            where, f"the migration did not end within {limit_s:.0f} s: look at what the database does"
        ) from None


async def _migrate(parsed: URL, revision: str, wait_s: float) -> str:
    async with _alone(parsed, wait_s):
        await _run(parsed, lambda connection: _upgrade(connection, revision))
        return await _run(parsed, _revision) or ""


async def current_revision(engine: Database) -> str | None:
    """The schema revision of a database; None where it has none yet."""
    return await engine.read(_revision)


def head_revision() -> str:
    """The revision that this release needs."""
    head = ScriptDirectory(str(_HERE)).get_current_head()
    assert head is not None
    return head


async def check_schema(engine: Database) -> None:
    """ConfigError unless the database has exactly the schema that this release needs: call it before serving."""
    found, needed = await current_revision(engine), head_revision()
    if found == needed:
        return
    where = engine.url.render_as_string(hide_password=True)
    if found is not None and found not in _known():
        raise ConfigError(where, f"its schema ({found}) is of a later release than this one ({needed}): upgrade Strata")
    raise ConfigError(
        where, f"its schema is {found or 'not there'}, this release needs {needed}: run `strata up`, which migrates it"
    )


def _known() -> set[str]:
    return {script.revision for script in ScriptDirectory(str(_HERE)).walk_revisions()}


def _upgrade(connection: Connection, revision: str) -> None:
    found = _revision(connection)
    if found is not None and found not in _known():
        raise ConfigError("records", f"the schema ({found}) is of a later release than this one: upgrade Strata")
    config = Config()
    config.set_main_option("script_location", str(_HERE).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return MigrationContext.configure(connection).get_current_revision()


async def _run(url: URL, work: Callable[[Connection], T]) -> T:
    try:
        if url.get_backend_name() == "sqlite":
            return await asyncio.to_thread(_run_sqlite, url, work)
        engine = create_async_engine(url, poolclass=NullPool, hide_parameters=True)
        try:
            async with engine.begin() as connection:
                return await connection.run_sync(work)
        finally:
            await engine.dispose()
    except (SQLAlchemyError, OSError):
        where = url.render_as_string(hide_password=True)
        raise ConfigError(
            where, "the database cannot be opened or written: check that it is there and allows it"
        ) from None


def _run_sqlite(url: URL, work: Callable[[Connection], T]) -> T:
    """A process that serves already may hold the lock: it is waited for."""
    engine = sqlite_engine(url, 1)
    wait = wait_random_exponential(multiplier=0.01, max=0.2)
    try:
        for attempt in Retrying(
            retry=retry_if_exception(contended), wait=wait, stop=stop_after_delay(_BUSY_S), reraise=True
        ):
            with attempt, engine.connect() as connection:
                writing = connection.execution_options(**{IMMEDIATE: True})
                with writing.begin():  # SQLite's DDL is transactional: a migration that is killed leaves nothing
                    return work(writing)
        raise AssertionError("tenacity returns or raises")
    finally:
        engine.dispose()


@asynccontextmanager
async def _alone(url: URL, wait_s: float) -> AsyncIterator[None]:
    """One migration at a time, over processes and machines. The lock goes with its holder, however that ends."""
    held = _file_lock(url) if url.get_backend_name() == "sqlite" else _server_lock(url)
    async with held as try_lock:
        deadline = asyncio.get_running_loop().time() + wait_s
        while not await _in_time(try_lock(), url):
            if asyncio.get_running_loop().time() >= deadline:
                raise ConfigError(
                    "records", f"another migration is still running after {wait_s:.0f} s: wait for it or end it"
                )
            await asyncio.sleep(_POLL_S)
        yield


async def _in_time(call: Awaitable[T], url: URL) -> T:
    """The answer of a server that may take connections and say nothing."""
    try:
        return await asyncio.wait_for(call, _ANSWER_S)
    except TimeoutError:
        where = url.render_as_string(hide_password=True)
        raise ConfigError(where, f"the database does not answer within {_ANSWER_S:.0f} s: look at its state") from None


@asynccontextmanager
async def _file_lock(url: URL) -> AsyncIterator[Callable[[], Any]]:
    path = Path(f"{url.database}.migration.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        raise ConfigError(str(path.parent), "this folder must be writable: it holds the records") from None

    async def try_lock() -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    try:
        yield try_lock
    finally:
        os.close(descriptor)  # releases the lock


@asynccontextmanager
async def _server_lock(url: URL) -> AsyncIterator[Callable[[], Any]]:
    """An advisory lock of the session, on the name of the database."""
    name = f"strata-{hashlib.blake2b((url.database or '').encode(), digest_size=8).hexdigest()}"
    number = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=7).digest(), "big")
    if url.get_backend_name() == "postgresql":
        statement = text("SELECT pg_try_advisory_lock(:number)").bindparams(number=number)
    else:
        statement = text("SELECT GET_LOCK(:name, 0)").bindparams(name=name)
    # No transaction is held open meanwhile: some servers end the sessions of idle ones.
    engine = create_async_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT", hide_parameters=True)
    try:
        connection = await _in_time(_connected(engine), url)
        try:
            yield lambda: _locked(connection, statement)
        finally:
            await connection.close()  # releases the lock
    except (SQLAlchemyError, OSError):
        where = url.render_as_string(hide_password=True)
        raise ConfigError(where, "the database cannot be reached: check that it is there and allows it") from None
    finally:
        await engine.dispose()


async def _connected(engine: AsyncEngine) -> AsyncConnection:
    return await engine.connect()


async def _locked(connection: AsyncConnection, statement: TextClause) -> bool:
    return bool((await connection.execute(statement)).scalar())
