"""What a replica learns from the records now and then: one loop, whatever is refreshed in it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from random import Random

import structlog

from memory.errors import StrataError

log = structlog.get_logger(__name__)


async def poll(every_s: float, refreshes: Mapping[str, Callable[[], Awaitable[None]]]) -> None:
    """Refresh all for ever, until cancelled. One that fails is logged by its name and the error's kind, and asked again next time."""
    jitter = Random(id(refreshes))  # noqa: S311 - spreads polls, no secret
    while True:
        await asyncio.sleep(every_s * (0.75 + jitter.random() / 2))
        for what, refresh in refreshes.items():
            try:
                await refresh()
            except StrataError as error:
                log.warning("poll_failed", what=what, kind=error.slug)
