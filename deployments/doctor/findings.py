"""What the doctor says: one line for each thing that was looked at."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from memory.errors import ConfigError, StrataError

DEADLINE_S = 20.0
"""For one look at one store: a doctor who waits for the patient to wake up is of no use."""


class Level(StrEnum):
    OK = "ok"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """`part` is what was looked at, `said` what was found, `fix` what to do about it ("" where nothing is)."""

    level: Level
    part: str
    said: str
    fix: str = ""


def ok(part: str, said: str) -> Finding:
    return Finding(Level.OK, part, said)


def warn(part: str, said: str, fix: str) -> Finding:
    return Finding(Level.WARN, part, said, fix)


def bad(part: str, said: str, fix: str) -> Finding:
    return Finding(Level.BAD, part, said, fix)


async def looked_at(
    part: str, fix: str, look: Callable[[], Awaitable[Sequence[Finding]]], deadline_s: float = DEADLINE_S
) -> list[Finding]:
    """What `look` finds; a store that is away, or slow, is a finding too."""
    try:
        async with asyncio.timeout(deadline_s):
            return list(await look())
    except ConfigError as error:
        return [bad(part, error.where, error.fix)]
    except StrataError as error:
        return [bad(part, error.detail, fix)]
    except TimeoutError:
        return [bad(part, f"did not answer within {deadline_s:.0f} s", fix)]
