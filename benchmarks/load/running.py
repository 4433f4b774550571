"""One step of load, a rising sweep, a soak: on a service that is running."""

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp
import psutil

from benchmarks.load.driving import Driver
from benchmarks.load.figures import CLIENT, Bound, Outcome, Slope, Step, next_rate, slope, step
from benchmarks.load.phrases import Questions
from benchmarks.load.processes import Watch, spent
from benchmarks.load.schedule import Call, Planned, Population, plan
from benchmarks.load.users import Slot

SETTLE_S = 2.0
"""Between two steps: what the one before left in queues and background work is no part of the next."""


@dataclass
class Soak:
    """Windows of equal length in their order, MB by kind over time, and how each kind grows."""

    windows: list[Step]
    memory: list[tuple[float, dict[str, float]]]
    slopes: dict[str, Slope]


@dataclass
class Load:
    """`watch`: None where the service's processes are not on this machine."""

    http: aiohttp.ClientSession
    slots: dict[tuple[int, int, int], Slot]
    mix: Mapping[Call, float]
    population: Population
    watch: Watch | None
    seed: int = 7
    in_flight: int = 256
    questions: Questions = field(default_factory=lambda: Questions(20_000))
    _asked: int = 0
    _steps: int = 0

    async def warm_up(self, rate: float = 10.0, seconds: float = 5.0) -> None:
        """Caches, connections, the first compiled statements: no part of any figure."""
        await self.step(rate, seconds)

    async def step(self, rate: float, seconds: float) -> Step:
        driver = self._driver()
        cpu = self._cpu()
        await driver.run(self._plan(rate, seconds))
        await asyncio.sleep(SETTLE_S)  # the Curator and what is done after an answer belong to its cost
        used = spent(cpu, self._cpu())
        self._asked = driver.asked
        memory = self.watch.memory() if self.watch else None
        return step(rate, seconds, driver.outcomes, driver.late, used, memory)

    async def find(
        self, bound: Bound, first: float, seconds: float, within_s: float, tell: Callable[[Step], None]
    ) -> tuple[list[Step], float]:
        """Steps at rising rates until one breaks the bound, then between the two; at most `within_s` seconds and a step more."""
        until, tried, steps = time.monotonic() + within_s, [], []
        rate: float | None = first
        while rate is not None and time.monotonic() < until:
            steps.append(await self.step(rate, seconds))
            tell(steps[-1])
            tried.append((rate, bound.holds(steps[-1])))
            rate = next_rate(tried, first)
        return steps, max((rate for rate, held in tried if held), default=math.nan)

    async def soak(self, rate: float, seconds: float, windows: int = 60, looks: int = 240) -> Soak:
        """The first tenth is no part of a slope: caches fill, pools grow to their size."""
        driver, memory = self._driver(), list[tuple[float, dict[str, float]]]()
        looking = asyncio.create_task(self._look(seconds / looks, memory))
        try:
            await driver.run(self._plan(rate, seconds))
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
        self._asked = driver.asked
        length = seconds / windows
        parts = [list[Outcome]() for _ in range(windows)]
        for outcome in driver.outcomes:
            parts[min(windows - 1, int(outcome.at / length))].append(outcome)
        steps = [step(rate, length, part, begins=number * length) for number, part in enumerate(parts)]
        return Soak(steps, memory, slopes(memory, seconds / 10))

    def _driver(self) -> Driver:
        return Driver(self.http, self.slots, self.questions, self.in_flight, asked=self._asked)

    def _plan(self, rate: float, seconds: float) -> Iterator[Planned]:
        self._steps += 1
        return plan(rate, seconds, self.mix, self.population, self.seed * 1000 + self._steps)

    def _cpu(self) -> dict[str, float]:
        own = psutil.Process().cpu_times()
        return {**(self.watch.cpu() if self.watch else {}), CLIENT: own.user + own.system}

    async def _look(self, every_s: float, memory: list[tuple[float, dict[str, float]]]) -> None:
        began = time.monotonic()
        while self.watch is not None:
            found = await asyncio.to_thread(self.watch.memory)
            memory.append((time.monotonic() - began, {kind: each.resident for kind, each in found.items()}))
            await asyncio.sleep(every_s)


def slopes(memory: Sequence[tuple[float, Mapping[str, float]]], after_s: float) -> dict[str, Slope]:
    """MB an hour by kind, from the samples after `after_s` seconds."""
    kinds = sorted({kind for _, found in memory for kind in found})
    grown = {}
    for kind in kinds:
        points = [(at, found[kind]) for at, found in memory if kind in found and at >= after_s]
        grown[kind] = slope([at for at, _ in points], [value for _, value in points])
    return grown
