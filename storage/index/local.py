"""The embedded tier's index: one SQLite file per tenant, an exact scan per user, BM25 on sealed words.

Any number of processes may use one folder. Each call is one transaction in a worker thread, under a deadline: when that passes,
or the caller is cancelled, the statement is interrupted and rolled back, so that nothing is ever half-written.
"""

import asyncio
import os
import random
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import apsw
import structlog

from memory.errors import ConfigError, DeadlineExceeded, NotFound, Overloaded, Unavailable
from memory.ids import MemoryId, TenantId, UserRef, checked_id
from memory.scope import Grant, Scope
from storage.index import partition
from storage.index.checks import checked_entries, checked_ids, checked_limit, checked_page, checked_query
from storage.index.matrices import MatrixCache
from storage.protocols import Hit, SealedEntry, SealedQuery, WalkPage

T = TypeVar("T")

log = structlog.get_logger(__name__)

_NAME = "index"
_LONG_S = 30.0
_TIMED_OUT = (apsw.BusyError, apsw.LockedError, apsw.InterruptError)
_BROKEN = (apsw.CorruptError, apsw.NotADBError)


class _Job:
    """One call's way to be told to stop, and its limit for waiting on locks."""

    def __init__(self, deadline_s: float) -> None:
        self._until = time.monotonic() + deadline_s
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None
        self._cancelled = False

    def start(self, connection: apsw.Connection) -> None:
        with self._lock:
            if self._cancelled:
                raise apsw.InterruptError
            self._connection = connection
        connection.set_commit_hook(
            self.cancelled
        )  # an interrupt between two statements is lost; the commit is refused all the same

    def cancelled(self) -> bool:
        return self._cancelled

    def end(self) -> None:
        with self._lock:
            self._connection = None

    def cancel(self) -> None:
        """Interrupts the running statement, never one of the connection's next user."""
        with self._lock:
            self._cancelled = True
            if self._connection is not None:
                self._connection.interrupt()

    def keep_waiting(self, tries: int) -> bool:
        if self._cancelled or time.monotonic() >= self._until:
            return False
        partition.pause(tries, random.random())  # noqa: S311 - spreads retries, no secret
        return True


class LocalIndex:
    """`storage.protocols.VectorIndex` in `directory`, for vectors of one model.

    `deadline_s` bounds every call (30 s: those that go through a whole file or folder), `threads` how many run at once, `queue`
    how many may wait before Overloaded, `cache_bytes` the vectors kept in memory, `open_files` the idle connections.
    """

    def __init__(
        self,
        directory: Path,
        model_key: str,
        dimension: int,
        deadline_s: float = 2.0,
        *,
        threads: int = 4,
        queue: int = 256,
        cache_bytes: int = 128 << 20,
        open_files: int = 64,
    ) -> None:
        self._directory, self._model_key, self._dimension = directory, model_key, dimension
        self._deadline_s = deadline_s
        self._cache = MatrixCache(cache_bytes)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="index")
        self._slots = threading.BoundedSemaphore(threads + queue)
        self._idle: OrderedDict[Path, list[apsw.Connection]] = OrderedDict()
        self._idle_lock = threading.Lock()
        self._open_files = open_files
        self._closed = False
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise ConfigError(
                str(directory), f"cannot be made ({error.strerror}); choose a folder that can be written"
            ) from None
        if not os.access(directory, os.W_OK | os.X_OK):
            raise ConfigError(str(directory), "cannot be written; choose another folder or give it to this user")

    # --- the protocol -------------------------------------------------------------------------------------------------

    async def check(self) -> None:
        """ConfigError for the first file in the folder that is damaged or holds another model's vectors (P18)."""
        await self._whole_folder(lambda path, connection: None)

    async def ensure_tenant(self, scope: Scope) -> None:
        await self._call(scope, lambda connection, job: partition.revive(connection), None, create=True)

    async def upsert(self, scope: Scope, entries: Sequence[SealedEntry]) -> None:
        vectors = checked_entries(entries, self._dimension)
        partition.file_name(scope.tenant_id)
        if not entries:
            return

        def work(connection: apsw.Connection, job: _Job) -> bool:
            partition.upsert(connection, entries, vectors)
            return True

        if not await self._call(scope, work, False):
            raise NotFound("partition")

    async def remove(self, scope: Scope, ids: Sequence[MemoryId]) -> None:
        def work(connection: apsw.Connection, job: _Job) -> None:
            for user_ref in partition.remove(connection, ids):
                self._cache.forget(connection.filename, user_ref)

        if checked_ids(ids):
            await self._call(scope, work, None)

    async def remove_user(self, scope: Scope, ref: UserRef) -> int:
        checked_id(ref, "ref")

        def work(connection: apsw.Connection, job: _Job) -> int:
            found = partition.remove_user(connection, ref)
            self._cache.forget(connection.filename, ref)
            return found

        return await self._call(scope, work, 0, deadline_s=_LONG_S)

    async def versions(self, scope: Scope, ids: Sequence[MemoryId]) -> dict[MemoryId, int]:
        nothing: dict[MemoryId, int] = {}
        if not checked_ids(ids):
            return nothing
        return await self._call(scope, lambda connection, job: partition.versions(connection, ids), nothing)

    async def remaining(self, scope: Scope, ids: Sequence[MemoryId]) -> set[MemoryId]:
        """There is one copy: what it holds."""
        return set(await self.versions(scope, ids))

    async def search(self, scope: Scope, query: SealedQuery, vector_limit: int, keyword_limit: int) -> list[Hit]:
        vector, terms = checked_query(query, self._dimension)
        checked_limit(vector_limit, "vector_limit")
        checked_limit(keyword_limit, "keyword_limit")

        def work(connection: apsw.Connection, job: _Job) -> list[Hit]:
            return partition.search(
                connection,
                self._cache,
                query.user_ref,
                vector,
                terms,
                vector_limit,
                keyword_limit,
            )

        nothing: list[Hit] = []
        return await self._call(scope, work, nothing)

    async def walk(self, scope: Scope, cursor: str | None, limit: int) -> WalkPage:
        """In ascending order of ids, which are the cursors."""
        checked_page(limit)
        if cursor is not None:
            checked_id(cursor, "cursor")
        nothing: list[tuple[MemoryId, int]] = []
        page = await self._call(scope, lambda connection, job: partition.walk(connection, cursor, limit), nothing)
        return WalkPage(tuple(page), page[-1][0] if len(page) == limit else None)

    async def count(self, scope: Scope, ref: UserRef | None) -> int:
        if ref is not None:
            checked_id(ref, "ref")
        return await self._call(scope, lambda connection, job: partition.count(connection, ref), 0)

    async def tenants(self, scope: Scope) -> set[TenantId]:
        scope.require(Grant.SYSTEM)
        found: set[TenantId] = set()

        def look(path: Path, connection: apsw.Connection) -> None:
            if not partition.is_dropped(connection):
                found.add(partition.tenant_of(path))

        await self._whole_folder(look)
        return found

    async def scrub(self, scope: Scope) -> None:
        """After an erasure: what was removed is gone from the file, its free pages and its log when this returns."""
        await self._call(
            scope, lambda connection, job: partition.scrub(connection, job.keep_waiting), None, deadline_s=_LONG_S
        )

    async def drop_tenant(self, scope: Scope) -> None:
        """An empty file stays, for the other processes that have it open: it refuses their writes."""
        await self._call(
            scope, lambda connection, job: partition.clear(connection, job.keep_waiting), None, deadline_s=_LONG_S
        )

    async def ping(self) -> None:
        """A probe file of a few bytes is written and removed."""

        def probe() -> None:
            path = self._directory / f".ping-{os.getpid()}-{threading.get_ident()}"
            path.write_bytes(b"ping")
            path.unlink()

        await self._in_thread(probe, _Job(self._deadline_s), self._deadline_s, self._directory)

    async def aclose(self) -> None:
        """Ends the threads and closes every file. Idempotent."""
        self._closed = True
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)
        with self._idle_lock:
            for connections in self._idle.values():
                for connection in connections:
                    connection.close(True)
            self._idle.clear()

    # --- threads, deadlines, connections ------------------------------------------------------------------------------

    async def _call(
        self,
        scope: Scope,
        work: Callable[[apsw.Connection, _Job], T],
        nothing: T,
        *,
        create: bool = False,
        deadline_s: float | None = None,
    ) -> T:
        """`work` on the tenant's file; `nothing` where there is none and it is not to be made."""
        path = self._directory / partition.file_name(scope.tenant_id)
        seconds = deadline_s or self._deadline_s
        job = _Job(seconds)

        def run() -> T:
            connection = self._checkout(path, create, job)
            if connection is None:
                return nothing
            usable = False
            try:
                job.start(connection)
                result = work(connection, job)
                usable = True
                return result
            except _TIMED_OUT:
                usable = True
                raise
            finally:
                job.end()
                self._checkin(path, connection, usable)

        return await self._in_thread(run, job, seconds, path)

    async def _whole_folder(self, look: Callable[[Path, apsw.Connection], None]) -> None:
        """`look` at every partition's file, one after the other."""
        job = _Job(_LONG_S)

        def run() -> None:
            for path in sorted(self._directory.glob(partition.FILES)):
                connection = partition.connect(path, self._model_key, self._dimension, False, job.keep_waiting)
                if connection is not None:
                    try:
                        look(path, connection)
                    finally:
                        connection.close()

        await self._in_thread(run, job, _LONG_S, self._directory)

    async def _in_thread(self, run: Callable[[], T], job: _Job, seconds: float, path: Path) -> T:
        if self._closed:
            raise Unavailable(_NAME)
        if not self._slots.acquire(blocking=False):
            raise Overloaded(_NAME, 1.0)
        try:
            future: Future[T] = self._pool.submit(run)
        except BaseException:
            self._slots.release()
            raise
        future.add_done_callback(lambda _: self._slots.release())
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.wrap_future(future)
        except (TimeoutError, *_TIMED_OUT):
            raise DeadlineExceeded(_NAME) from None
        except _BROKEN:
            raise ConfigError(
                str(path), "is damaged; move it away and have its entries indexed again (the records are whole)"
            ) from None
        except (apsw.Error, OSError) as error:  # disk full, read-only, gone: the transaction was rolled back
            log.warning("index_error", error=type(error).__name__)
            raise Unavailable(_NAME) from None
        finally:
            job.cancel()

    def _checkout(self, path: Path, create: bool, job: _Job) -> apsw.Connection | None:
        with self._idle_lock:
            kept = self._idle.get(path)
            connection = kept.pop() if kept else None
            if kept is not None and not kept:
                del self._idle[path]
        if connection is None:
            return partition.connect(path, self._model_key, self._dimension, create, job.keep_waiting)
        connection.set_busy_handler(job.keep_waiting)
        return connection

    def _checkin(self, path: Path, connection: apsw.Connection, usable: bool) -> None:
        if not usable or self._closed:
            connection.close(True)
            return
        surplus = []
        with self._idle_lock:
            self._idle.setdefault(path, []).append(connection)
            self._idle.move_to_end(path)
            while sum(map(len, self._idle.values())) > self._open_files:
                oldest = next(iter(self._idle))
                surplus.append(self._idle[oldest].pop())
                if not self._idle[oldest]:
                    del self._idle[oldest]
        for closed in surplus:
            closed.close(True)
