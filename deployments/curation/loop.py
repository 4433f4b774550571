"""A worker's loop: steps while there is work, then a rest that a wake-up ends. One loop's trouble is nobody else's."""

import asyncio
import traceback
from collections.abc import Awaitable, Iterable
from random import Random
from typing import Protocol

import structlog

from memory.errors import StrataError

log = structlog.get_logger(__name__)


class Step(Protocol):
    async def __call__(self) -> bool:
        """A bounded piece of work. True where more of it waits."""


async def all_of(work: Iterable[Awaitable[None]]) -> None:
    """All at once and each to its end; then the first failure is raised, if there was one."""
    failures = await asyncio.gather(*work, return_exceptions=True)
    for failure in failures:
        if isinstance(failure, BaseException):
            raise failure


class Loop:
    """`step` for ever. A step that fails, even by a mistake of ours, is logged by its kind alone; after it, and when nothing is left
    to do, the loop rests for about `rest_s` (spread by a quarter, so that workers do not ask together), or until it is woken."""

    def __init__(self, what: str, step: Step, rest_s: float) -> None:
        self._what, self._step, self._rest_s = what, step, rest_s
        self._awake = asyncio.Event()
        self._jitter = Random(id(self))  # noqa: S311 - spreads polls, no secret

    def wake(self) -> None:
        """There is work: do not wait for the end of the rest."""
        self._awake.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._awake.clear()
            try:
                busy = await self._step()
            except StrataError as error:
                log.warning("worker_step_failed", worker=self._what, kind=error.slug)
                busy = False
            except Exception as error:  # its message may hold anything; the place of it is ours
                log.error("worker_step_broke", worker=self._what, kind=type(error).__name__, at=_place(error))
                busy = False
            if not busy:
                await self._rest()

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(self._rest_s * (0.75 + self._jitter.random() / 2)):
                await self._awake.wait()
        except TimeoutError:
            pass


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
