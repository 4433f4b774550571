"""The connection to SQL: transactions that are rerun when the database asks for it, a deadline around each, our own errors out.

A transaction is a plain function of a SQLAlchemy Connection. It may run more than once, so it has no effects but those in the
database. On SQLite it runs in a thread (storage/records/sqlite.py says why), on a server through the asynchronous driver.
"""

import asyncio
import logging
import random
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import structlog
from sqlalchemy import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError, StatementError
from sqlalchemy.ext.asyncio import create_async_engine
from tenacity import AsyncRetrying, RetryCallState, stop_after_delay, wait_random_exponential

from memory.errors import ConfigError, Conflict, DeadlineExceeded, InvalidInput, Overloaded, StrataError, Unavailable
from storage.records.sqlite import IMMEDIATE, sqlite_engine, truncate_log

logging.getLogger("asyncmy").setLevel(logging.ERROR)  # its warnings are the server's own words, which may quote values

log = structlog.get_logger(__name__)

T = TypeVar("T")
Work = Callable[[Connection], T]

_RERUN_SQLITE = ("database is locked", "database table is locked", "database schema is locked")
_RERUN_MYSQL = {1213, 1205, 1020}  # deadlock, lock wait timeout, MariaDB's "record has changed"
_RERUN_POSTGRES = {"40001", "40P01", "55P03"}
_INTEGRITY_RERUNS = 2  # after the first run
_FIRST_PAUSE_S = 0.004
_INSIST_S = 0.5


def database_url(url: str) -> URL:
    """The parsed URL of SQLite, MySQL, MariaDB or PostgreSQL, each with its driver: SQLite runs in threads of ours, the others
    asynchronously. ConfigError otherwise."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ConfigError("records", "give a database URL such as sqlite:////path/to/records.db") from None
    drivers = {"sqlite": "pysqlite", "mysql": "asyncmy", "mariadb": "asyncmy", "postgresql": "asyncpg"}
    backend = parsed.get_backend_name()
    if backend not in drivers:
        raise ConfigError("records", f"use one of {', '.join(drivers)} instead of {backend}")
    if backend == "sqlite" and (parsed.database in (None, "", ":memory:") or parsed.query):
        raise ConfigError("records", "name a database file: sqlite:////path/to/records.db, without further options")
    return parsed.set(drivername=f"{backend}+{drivers[backend]}")


def contended(error: BaseException) -> bool:
    """Whether the database asks to run this transaction again: somebody else holds the lock."""
    if not isinstance(error, DBAPIError) or error.orig is None:
        return False
    state = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
    code = error.orig.args[0] if error.orig.args else None
    return state in _RERUN_POSTGRES or code in _RERUN_MYSQL or str(code).startswith(_RERUN_SQLITE)


def _code(error: DBAPIError) -> str | int | None:
    for name in ("sqlite_errorname", "sqlstate", "pgcode"):
        if isinstance(code := getattr(error.orig, name, None), str):
            return code
    first = error.orig.args[0] if error.orig is not None and error.orig.args else None
    return first if isinstance(first, int) else None


def _rerun(state: RetryCallState) -> bool:
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, IntegrityError):  # two first writers of one row: the second run sees the first's
        return state.attempt_number < _INTEGRITY_RERUNS
    return error is not None and contended(error)


class Database:
    """One pool. `deadline_s` bounds every call, queueing and reruns included; at most `max_waiting` calls are in it at once.

    `read` sees one snapshot on SQLite (READ COMMITTED on servers), `write` is serialised on SQLite and takes row locks on servers.
    """

    def __init__(self, url: str, *, deadline_s: float = 3.0, connections: int = 4, max_waiting: int = 512) -> None:
        self.url = database_url(url)
        self._deadline_s = deadline_s
        self._max_waiting = max_waiting
        self._inside = 0
        self._local = _Threads(self.url, connections) if self.url.get_backend_name() == "sqlite" else None
        self._server = None if self._local else _Server(self.url, connections, deadline_s)

    async def read(self, work: Work[T]) -> T:
        """`work` in a transaction that changes nothing."""
        return await self._run(work, write=False)

    async def write(self, work: Work[T]) -> T:
        """`work` in one transaction: all or nothing."""
        return await self._run(work, write=True)

    async def scrub(self) -> bool:
        """Make the bytes of what was deleted before this call physically gone, as far as this database can: SQLite cuts its log.
        False: not possible at the moment. A server's logs are its operator's (docs/security.md)."""
        return True if self._local is None else await self._guarded(self._local.scrub)

    async def dispose(self) -> None:
        """Close every connection; what is running ends first."""
        if self._local:
            await self._local.close()
        if self._server:
            await self._server.close()

    async def _run(self, work: Work[T], write: bool) -> T:
        runner = self._local or self._server
        assert runner is not None

        async def attempts() -> T:
            try:
                return await runner.attempt(work, write)
            except DBAPIError as error:  # nearly never: what repeats is set up for those alone
                if not (contended(error) or isinstance(error, IntegrityError)):
                    raise
            await asyncio.sleep(random.uniform(0, _FIRST_PAUSE_S))  # noqa: S311 - spreads retries, no secret
            async for attempt in AsyncRetrying(
                retry=_rerun,
                wait=wait_random_exponential(multiplier=_FIRST_PAUSE_S, max=0.2),
                stop=stop_after_delay(self._deadline_s),
                reraise=True,
            ):
                with attempt:
                    return await runner.attempt(work, write)
            raise AssertionError("tenacity returns or raises")

        return await self._guarded(attempts)

    async def _guarded(self, call: Callable[[], Awaitable[T]]) -> T:
        if self._inside >= self._max_waiting:
            raise Overloaded("records", 1.0)
        self._inside += 1
        try:
            return await _within(self._deadline_s, call)
        except StrataError:
            raise
        except TimeoutError:
            raise DeadlineExceeded("records") from None
        except IntegrityError:
            raise Conflict("Somebody else wrote this at the same time; read it again.") from None
        except DBAPIError as error:
            # The server's own text stays here: it may quote values. Its code is what the log gets: SQLITE_FULL, 2013, 53300.
            if contended(error):
                raise DeadlineExceeded("records") from None
            log.warning("records_store_error", error=type(error.orig).__name__, code=_code(error))
            raise Unavailable("records") from None
        except StatementError as error:  # refused by one of our own column types before it reached the database
            raise ValueError(str(error.orig)) from None
        except UnicodeError:
            raise InvalidInput("content", "use text that UTF-8 can carry: no lone surrogates") from None
        except (SQLAlchemyError, OSError):
            raise Unavailable("records") from None
        finally:
            self._inside -= 1


async def _within(deadline_s: float, call: Callable[[], Awaitable[T]]) -> T:
    """TimeoutError when the deadline has passed, even where the first cancellation is lost: `asyncio.wait_for`, which the drivers
    use, swallows one that comes in the same moment as what it waits for, and the call would go on for as long as a stalled server
    likes."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    repeated = 0
    timer: asyncio.TimerHandle | None = None

    def insist() -> None:
        nonlocal repeated, timer
        repeated += 1
        task.cancel()
        timer = loop.call_later(_INSIST_S, insist)

    async with asyncio.timeout(deadline_s):
        timer = loop.call_later(deadline_s + _INSIST_S, insist)
        try:
            return await call()
        finally:
            if timer is not None:
                timer.cancel()
            for _ in range(repeated):
                task.uncancel()


def create_engine(url: str, deadline_s: float = 3.0) -> Database:
    """A Database with the usual pool. It connects when it is first used."""
    return Database(url, deadline_s=deadline_s)


class _Threads:
    """SQLite: one thread writes, several read. Writers of this process so queue fairly; those of others meet at BEGIN IMMEDIATE."""

    def __init__(self, url: URL, readers: int) -> None:
        self._engine = sqlite_engine(url, readers + 1)
        self._readers = ThreadPoolExecutor(readers, thread_name_prefix="records-read")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="records-write")

    async def attempt(self, work: Work[T], write: bool) -> T:
        given_up = threading.Event()

        def run() -> T:
            with self._engine.connect() as connection:
                if write:
                    connection = connection.execution_options(**{IMMEDIATE: True})
                with connection.begin():
                    result = work(connection)
                    if given_up.is_set():  # the caller was told that it failed: so it shall have
                        raise DeadlineExceeded("records")
                    return result

        try:
            return await asyncio.get_running_loop().run_in_executor(self._writer if write else self._readers, run)
        except asyncio.CancelledError:
            given_up.set()
            raise

    async def scrub(self) -> bool:
        return await asyncio.get_running_loop().run_in_executor(self._writer, truncate_log, self._engine)

    async def close(self) -> None:
        await asyncio.to_thread(self._writer.shutdown, wait=True, cancel_futures=True)
        await asyncio.to_thread(self._readers.shutdown, wait=True, cancel_futures=True)
        self._engine.dispose()


class _Server:
    """MySQL, MariaDB, PostgreSQL. READ COMMITTED: a writer that waited for the user's row then sees what the one before wrote."""

    def __init__(self, url: URL, connections: int, deadline_s: float) -> None:
        self._engine = create_async_engine(
            url,
            pool_size=connections,
            max_overflow=connections,
            pool_timeout=None,  # the deadline around each call bounds this wait, too
            pool_pre_ping=True,
            pool_recycle=1800,
            isolation_level="READ COMMITTED",
            hide_parameters=True,
        )

    async def attempt(self, work: Work[T], write: bool) -> T:
        async with self._engine.connect() as connection, connection.begin():
            return await connection.run_sync(work)

    async def close(self) -> None:
        await self._engine.dispose()
