"""Contestants that take turns, so that a busy machine slows all alike."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

Turn = Callable[[], tuple[float, float]]
"""Does the whole work once: seconds of the clock, seconds of CPU."""


@dataclass
class Times:
    """Of each round."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return statistics.median(self.wall)

    @property
    def cpu_seconds(self) -> float:
        return statistics.median(self.cpu)


def timed(work: Callable[[], object]) -> Turn:
    """In this process."""

    def turn() -> tuple[float, float]:
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        return time.perf_counter() - wall, time.process_time() - cpu

    return turn


def take_turns(contestants: Mapping[str, Turn], rounds: int) -> dict[str, Times]:
    """Once each to warm up, then `rounds` times in turn."""
    for turn in contestants.values():
        turn()
    times = {name: Times() for name in contestants}
    for _ in range(rounds):
        for name, turn in contestants.items():
            wall, cpu = turn()
            times[name].wall.append(wall)
            times[name].cpu.append(cpu)
    return times


def show(times: Mapping[str, Times], count: int, unit: str, title: str) -> None:
    """All of them; ratios are to the first."""
    table = Table(title=title)
    for column in ("path", f"{unit}/s", "ratio", f"{unit}/CPU-s", "ratio"):
        table.add_column(column, justify="left" if column == "path" else "right", no_wrap=column == "path")
    first = next(iter(times.values()))
    for name, one in times.items():
        table.add_row(
            name,
            f"{count / one.seconds:.1f}",
            f"{first.seconds / one.seconds:.2f}",
            f"{count / one.cpu_seconds:.1f}",
            f"{first.cpu_seconds / one.cpu_seconds:.2f}",
        )
    Console().print(table)
