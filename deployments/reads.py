"""What was read, put on record after the answers: access counts and the audit, many reads in one transaction.

A read is on record within about half a second of its answer. While the records are away reads are kept, up to a bound, and written
when they are back; a replica that stops writes what it has. What a killed process had not written yet is lost.
"""

import asyncio
from contextvars import Context
from typing import Protocol

import structlog

from deployments.background import Background
from deployments.telemetry.metrics import BACKGROUND_DROPPED
from memory.errors import DeadlineExceeded, Overloaded, StrataError, Unavailable
from memory.scope import Scope, system_scope
from storage.protocols import AuditEvent, Read

log = structlog.get_logger(__name__)

SOON_S = 0.4
AGAIN_S = 3.0
AT_ONCE = 200
"""Reads in one transaction: it must not hold a user's rows for long."""
MOST = 10_000


class _Records(Protocol):
    """The part of the records that is needed here."""

    async def note_reads(self, scope: Scope, reads: list[Read]) -> None: ...


class ReadLog:
    def __init__(self, records: _Records, background: Background, most: int = MOST) -> None:
        self._records, self._background, self._most = records, background, most
        self._waiting: list[Read] = []
        self._writing = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        background.at_close(self.write)

    def note(self, scope: Scope, event: AuditEvent) -> None:
        """That scope.user's entries which `event` names were read. Over the bound it is dropped and counted."""
        if len(self._waiting) >= self._most:
            BACKGROUND_DROPPED.inc()
            return
        self._waiting.append(Read(scope, event))
        self._write_in(SOON_S)

    async def write(self) -> None:
        """Everything that waits, now; what the records do not take stays."""
        async with self._writing:
            while batch := self._waiting[:AT_ONCE]:
                try:
                    await self._records.note_reads(system_scope(), batch)
                except (Unavailable, DeadlineExceeded, Overloaded):
                    self._write_in(AGAIN_S)
                    raise
                except StrataError as error:  # refused, and so it would be again
                    log.warning("reads_not_recorded", kind=error.slug, reads=len(batch))
                del self._waiting[: len(batch)]

    def _write_in(self, seconds: float) -> None:
        if self._timer is None:
            # In no request's context: what is written is of many, and belongs into the trace of none.
            self._timer = asyncio.get_running_loop().call_later(seconds, self._begin, context=Context())

    def _begin(self) -> None:
        self._timer = None
        self._background.submit(self.write())
