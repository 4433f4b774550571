"""Timing one call after another, and saying how it compares."""

import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """Median milliseconds of one call by one client. `floor_ms`: the median of the least that could be done, in the same run."""

    backend: str
    call: str
    p50_ms: float
    floor_ms: float | None = None
    floor: str = ""

    @property
    def ratio(self) -> float | None:
        return self.p50_ms / self.floor_ms if self.floor_ms else None


async def median_ms(call: Callable[[int], Awaitable[object]], times: int) -> float:
    """Median over `times` calls, each given its number, one after another; a tenth more come first and do not count."""
    spent = []
    warm = max(1, times // 10)
    for number in range(warm + times):
        began = time.perf_counter()
        await call(number)
        if number >= warm:
            spent.append((time.perf_counter() - began) * 1000)
    return statistics.median(spent)
