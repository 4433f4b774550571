"""What is done after the response: access counts, read audits. Bounded, and waited for when the replica stops."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from deployments.telemetry.metrics import BACKGROUND_DROPPED
from memory.errors import StrataError

log = structlog.get_logger(__name__)


class Background:
    """At most `limit` pieces of work at once; what comes on top is dropped and counted, never queued without bound."""

    def __init__(self, limit: int = 1000) -> None:
        self._limit = limit
        self._tasks: set[asyncio.Task[None]] = set()
        self._last: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self.dropped = 0

    def at_close(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begun, and waited for, when this closes."""
        self._last.append(work)

    def submit(self, work: Coroutine[Any, Any, None]) -> None:
        if len(self._tasks) >= self._limit:
            work.close()
            self.dropped += 1
            BACKGROUND_DROPPED.inc()
            return
        task = asyncio.create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except StrataError as error:
            log.warning("background_work_failed", kind=error.slug)

    async def close(self, timeout_s: float = 3.0) -> None:
        """Waits for what runs, then cancels it."""
        for work in self._last:
            self.submit(work())
        if self._tasks:
            _, late = await asyncio.wait(set(self._tasks), timeout=timeout_s)
            for task in late:
                task.cancel()
