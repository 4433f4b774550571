"""What a load looked like, as one PNG."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

from benchmarks.load.figures import ALL, Step

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

_SHARES = (("p50", "-"), ("p95", "--"), ("p99", ":"))


def over_rates(steps: Sequence[Step], path: Path) -> None:
    """Latency by offered rate, and what was answered of it."""
    steps = sorted(steps, key=lambda step: step.rate)
    rates = [step.rate for step in steps]
    figure, (above, below) = pyplot.subplots(2, 1, sharex=True, figsize=(8, 8), height_ratios=(3, 2))
    _latencies(above, rates, steps)
    below.plot(rates, [step.per_second for step in steps], "o-", label="answered")
    below.plot(rates, rates, color="grey", linewidth=0.8, label="offered")
    below.set(xlabel="offered, requests/s", ylabel="requests/s", ylim=(0, None))
    below.legend()
    _keep(figure, path)


def over_time(steps: Sequence[Step], memory: Sequence[tuple[float, dict[str, float]]], path: Path) -> None:
    """A soak: latency by window, and MB by kind of process. `memory`: (seconds, {kind: MB})."""
    ends = [step.seconds * (number + 1) / 60 for number, step in enumerate(steps)]
    figure, (above, below) = pyplot.subplots(2, 1, sharex=True, figsize=(8, 8))
    _latencies(above, ends, steps)
    for kind in sorted({kind for _, found in memory for kind in found}):
        points = [(at / 60, found[kind]) for at, found in memory if kind in found]
        below.plot(*zip(*points, strict=True), label=kind)
    below.set(xlabel="minutes", ylabel="resident, MB", ylim=(0, None))
    below.legend(fontsize="small")
    _keep(figure, path)


def _latencies(axes: Axes, places: Sequence[float], steps: Sequence[Step]) -> None:
    calls = sorted({call for step in steps for call in step.latency} - {ALL})
    for number, call in enumerate(calls):
        for share, line in _SHARES:
            points = [
                (place, getattr(step.latency[call], share))
                for place, step in zip(places, steps, strict=True)
                if call in step.latency
            ]
            axes.plot(*zip(*points, strict=True), line, marker=".", color=f"C{number}", label=f"{call} {share}")
    axes.set(ylabel="ms from the intended start", yscale="log")
    axes.grid(True, which="both", linewidth=0.3)
    axes.legend(fontsize="small", ncols=max(1, len(calls)))


def _keep(figure: Figure, path: Path) -> None:
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
