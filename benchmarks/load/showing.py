"""Steps and soaks as tables, and as rows of `make bench`."""

import math
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.load.figures import ALL, CLIENT, Step
from benchmarks.load.running import Soak
from benchmarks.report import Row


def in_one_line(step: Step) -> str:
    every = step.latency[ALL]
    errors = ", ".join(f"{status} {count}" for status, count in step.errors.items()) or "none"
    return (
        f"{step.rate:.3g}/s for {step.seconds:g} s: answered {step.per_second:.1f}/s, p50 {every.p50:.0f} ms, "
        f"p99 {every.p99:.0f} ms, errors {errors}"
    )


def steps(found: Sequence[Step], console: Console) -> None:
    """Latency and errors by rate and call; CPU and memory by rate and kind of process."""
    table = Table("rate", "answered/s", "call", "count", "p50 ms", "p95 ms", "p99 ms", "longest", title="Latency")
    for step in found:
        for call, each in step.latency.items():
            times = [f"{value:.0f}" for value in (each.p50, each.p95, each.p99, each.longest)]
            head = (f"{step.rate:.3g}", f"{step.per_second:.1f}") if call == ALL else ("", "")
            table.add_row(*head, call, str(each.count), *times)
    console.print(table)
    table = Table("rate", "errors", "degraded", "sent late, p99 ms", title="What went wrong")
    for step in found:
        errors, degraded = (_counted(counts) for counts in (step.errors, step.degraded))
        table.add_row(f"{step.rate:.3g}", errors, degraded, f"{step.late_ms:.1f}")
    console.print(table)
    kinds = sorted({kind for step in found for kind in step.cpu_ms} - {CLIENT})
    if kinds:
        table = Table("rate", *kinds, "all", CLIENT, title="CPU, ms a request answered")
        for step in found:
            spent = [f"{step.cpu_ms.get(kind, 0.0):.1f}" for kind in kinds]
            table.add_row(f"{step.rate:.3g}", *spent, f"{step.cpu_ms_total:.1f}", f"{step.cpu_ms[CLIENT]:.1f}")
        console.print(table)
        table = Table("rate", *kinds, title="Memory at the end, MB resident (of these nobody else's)")
        for step in found:
            sizes = (step.memory.get(kind) for kind in kinds)
            table.add_row(
                f"{step.rate:.3g}",
                *("" if size is None else f"{size.resident:.0f} ({size.unique:.0f})" for size in sizes),
            )
        console.print(table)


def soak(found: Soak, console: Console) -> None:
    answered = sum(window.answered for window in found.windows)
    offered = sum(window.offered for window in found.windows)
    errors: dict[str, int] = {}
    for window in found.windows:
        for status, count in window.errors.items():
            errors[status] = errors.get(status, 0) + count
    console.print(f"{offered} calls, {answered} answered; errors: {_counted(errors) or 'none'}")
    table = Table("minutes", "answered/s", "p50 ms", "p95 ms", "p99 ms", title="Latency over time")
    every = max(1, len(found.windows) // 12)
    for number in range(0, len(found.windows), every):
        window = found.windows[number]
        each = window.latency[ALL]
        times = (f"{value:.0f}" for value in (each.p50, each.p95, each.p99))
        table.add_row(f"{number * window.seconds / 60:.1f}", f"{window.per_second:.1f}", *times)
    console.print(table)
    table = Table("process", "MB at first", "MB at last", "MB an hour", "95 %", "grows", title="Resident memory")
    for kind, grown in found.slopes.items():
        sizes = [sample[kind] for _, sample in found.memory if kind in sample]
        grows = "" if math.isnan(grown.per_hour) else "yes" if grown.grows else "no"
        table.add_row(
            kind, f"{sizes[0]:.0f}", f"{sizes[-1]:.0f}", f"{grown.per_hour:+.1f}", f"+- {grown.within:.1f}", grows
        )
    console.print(table)


def rows(found: Sequence[Step], highest: float | None) -> list[Row]:
    """Of each step what was answered of what was offered, its latency by call, and what a request costs; of a search for the
    `highest` rate that alone: its steps are on the way, some beyond what can be carried."""
    if highest is not None:
        return [] if math.isnan(highest) else [Row("load: highest rate within bounds", highest, "1/s")]
    told = []
    for step in found:
        name = f"load at {step.rate:.3g}/s"
        told.append(Row(f"{name}: answered", step.answered, "calls", "offered", float(step.offered), 0.99))
        for call, each in step.latency.items():
            if call != ALL:
                told.append(Row(f"{name}: {call} p50", each.p50, "ms"))
                told.append(Row(f"{name}: {call} p99", each.p99, "ms"))
        if step.cpu_ms_total:
            told.append(Row(f"{name}: CPU a request", step.cpu_ms_total, "ms"))
    return told


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{what} {count}" for what, count in counts.items())
