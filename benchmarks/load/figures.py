"""From outcomes to figures: percentiles, errors, what a request costs, how memory grows. Pure."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

ALL = "all"
CLIENT = "load client"
"""The kind of process that measures: its CPU is told, and is no part of a request's cost."""
UNSENT = "unsent"
"""The status of a call that was due while as many were under way as are allowed: the service was that far behind."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One call: `at` its intended start and `seconds` from then to the answer's end, so that what waits in the client counts, too
    (no coordinated omission). `status`: HTTP's, or a word for what came instead."""

    call: str
    at: float
    seconds: float
    status: str
    degraded: tuple[str, ...] = ()

    @property
    def answered(self) -> bool:
        return self.status.startswith("2")


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds of the calls that were answered with success."""

    count: int
    p50: float
    p95: float
    p99: float
    longest: float


@dataclass(frozen=True, slots=True)
class Memory:
    """MB at the end of a step, all processes of a kind together. `unique`: what no other process shares."""

    processes: int
    resident: float
    unique: float


@dataclass(frozen=True, slots=True)
class Step:
    """One rate, held for some seconds. `cpu_ms` and `memory` by kind of process."""

    rate: float
    seconds: float
    offered: int
    answered: int
    per_second: float
    errors: dict[str, int]
    degraded: dict[str, int]
    latency: dict[str, Latency]
    late_ms: float
    cpu_ms: dict[str, float] = field(default_factory=dict)
    memory: dict[str, Memory] = field(default_factory=dict)

    @property
    def error_share(self) -> float:
        return 1 - self.answered / self.offered if self.offered else 0.0

    @property
    def cpu_ms_total(self) -> float:
        return sum(ms for kind, ms in self.cpu_ms.items() if kind != CLIENT)


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest rank: the least of `values` that at least `share` of them do not exceed. NaN for none."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def latency(seconds: Sequence[float]) -> Latency:
    ms = [1e3 * each for each in seconds]
    return Latency(len(ms), percentile(ms, 0.5), percentile(ms, 0.95), percentile(ms, 0.99), max(ms, default=math.nan))


def latencies(outcomes: Iterable[Outcome]) -> dict[str, Latency]:
    """By call, and of all together."""
    times: dict[str, list[float]] = {ALL: []}
    for outcome in outcomes:
        if outcome.answered:
            times[ALL].append(outcome.seconds)
            times.setdefault(outcome.call, []).append(outcome.seconds)
    return {call: latency(times[call]) for call in (ALL, *sorted(set(times) - {ALL}))}


def step(
    rate: float,
    seconds: float,
    outcomes: Sequence[Outcome],
    late: Sequence[float] = (),
    cpu: Mapping[str, float] | None = None,
    memory: Mapping[str, Memory] | None = None,
    begins: float = 0.0,
) -> Step:
    """`cpu`: seconds of CPU by kind over the step. `late`: by how many seconds each call was sent after its time. `begins`: when the
    step does, on the outcomes' clock."""
    answered = sum(outcome.answered for outcome in outcomes)
    ends = [outcome.at + outcome.seconds - begins for outcome in outcomes if outcome.answered]
    wall = max(seconds, max(ends, default=0.0))
    return Step(
        rate=rate,
        seconds=seconds,
        offered=len(outcomes),
        answered=answered,
        per_second=answered / wall if wall else 0.0,
        errors=dict(Counter(outcome.status for outcome in outcomes if not outcome.answered).most_common()),
        degraded=dict(Counter(part for outcome in outcomes for part in outcome.degraded).most_common()),
        latency=latencies(outcomes),
        late_ms=1e3 * percentile(late, 0.99),
        cpu_ms={kind: 1e3 * spent / max(1, answered) for kind, spent in (cpu or {}).items()},
        memory=dict(memory or {}),
    )


@dataclass(frozen=True, slots=True)
class Slope:
    """Growth an hour, and how far the true one may be from it (95 %)."""

    per_hour: float
    within: float

    @property
    def grows(self) -> bool:
        """Whether the whole interval lies above nothing."""
        return self.per_hour - self.within > 0


def slope(seconds: Sequence[float], values: Sequence[float]) -> Slope:
    """Least squares. Samples of a process resemble the one before: the interval counts only as many as are independent
    (n (1 - r) / (1 + r), r the residuals' correlation with the next). NaN for fewer than three."""
    if len(values) < 3 or len(set(seconds)) < 3:
        return Slope(math.nan, math.nan)
    x, y = np.asarray(seconds, dtype=float) / 3600, np.asarray(values, dtype=float)
    x = x - x.mean()
    steepness = float(x @ y / (x @ x))
    rest = y - y.mean() - steepness * x
    power = float(rest @ rest)
    if power <= 1e-12 * max(1.0, float(y @ y)):
        return Slope(steepness, 0.0)
    alike = min(0.99, max(0.0, float(rest[1:] @ rest[:-1]) / power))
    independent = max(3.0, len(y) * (1 - alike) / (1 + alike))
    error = math.sqrt(power / (independent - 2) / (float(x @ x) * independent / len(y)))
    return Slope(steepness, student(independent - 2) * error)


def student(freedom: float) -> float:
    """The 97.5 % point of Student's t: by its expansion around the normal's, which is too small below four degrees of freedom."""
    if freedom < 4:
        return float(np.interp(freedom, (1, 2, 3, 4), (12.71, 4.30, 3.18, 2.78)))
    z = 1.959964
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


@dataclass(frozen=True, slots=True)
class Bound:
    """What a rate must keep to count as carried: p99 of all calls in ms, the share of calls that may fail, and the share of the
    offered rate that is answered in the time."""

    p99_ms: float = 1000.0
    error_share: float = 0.01
    kept: float = 0.9

    def holds(self, step: Step) -> bool:
        if not step.offered:
            return True
        in_time = step.per_second >= self.kept * step.offered / step.seconds
        return step.error_share <= self.error_share and step.latency[ALL].p99 <= self.p99_ms and in_time


def next_rate(
    tried: Sequence[tuple[float, bool]], first: float, growth: float = 1.6, precision: float = 0.1
) -> float | None:
    """The rate to try after these (rate, whether it held): rising by `growth` until one does not hold, then halving the gap until
    it is within `precision` of the highest that held. None: found, or not even the lowest tried of five halvings holds."""
    good = max((rate for rate, held in tried if held), default=None)
    bad = min((rate for rate, held in tried if not held and (good is None or rate > good)), default=None)
    if good is None and bad is None:
        return first
    if bad is None:
        assert good is not None
        return good * growth
    if good is None:
        return bad / 2 if len(tried) < 5 else None
    return None if bad / good - 1 <= precision else (good * bad) ** 0.5
