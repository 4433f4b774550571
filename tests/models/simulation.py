"""A device and its load in virtual time: what a batcher does in minutes of traffic, computed in milliseconds, the same every time."""

import heapq
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count

from memory.errors import Overloaded
from models.fairqueue import FairQueue, Job
from models.padding import padded_groups

LAUNCH_S = 0.002
TOKENS_PER_S = 6000.0
LAUNCH_TOKENS = int(LAUNCH_S * TOKENS_PER_S)


@dataclass(eq=False)
class Arrival:
    """One text: when it comes, and what became of it. `at` and `done` are seconds of virtual time."""

    at: float
    tenant: str
    tokens: int
    kind: str = "query"
    timeout_s: float = 30.0
    cancelled_at: float | None = None
    started: float | None = None
    done: float | None = None
    refused: bool = False
    expired: bool = False

    @property
    def latency(self) -> float:
        assert self.done is not None
        return self.done - self.at


@dataclass
class Outcome:
    arrivals: list[Arrival]
    most_waiting: int = 0
    batches: list[list[Arrival]] = field(default_factory=list)

    def served(self, tenant: str | None = None) -> list[Arrival]:
        return [a for a in self.arrivals if a.done is not None and tenant in (None, a.tenant)]

    def latency(self, share: float, tenant: str | None = None) -> float:
        ordered = sorted(a.latency for a in self.served(tenant))
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)]

    def tokens_per_s(self) -> float:
        """Of real tokens, over the time that the device worked on them."""
        done = self.served()
        return sum(a.tokens for a in done) / (max(a.done or 0.0 for a in done) - min(a.at for a in done))


def run_seconds(lengths: list[int]) -> float:
    """What the device takes for one batch as a single padded matrix, in the order given."""
    return LAUNCH_S + max(lengths) * len(lengths) / TOKENS_PER_S


def sorted_run_seconds(lengths: list[int], budget: int) -> float:
    """What the device takes for texts grouped by length, as the encoder does."""
    groups = padded_groups(lengths, budget, LAUNCH_TOKENS)
    return sum(run_seconds([lengths[i] for i in group]) for group in groups)


def pull(
    arrivals: Iterable[Arrival], batch_tokens: int = 1024, max_items: int = 4096, max_wait_s: float | None = None
) -> Outcome:
    """The queue under test, pulled whenever the device is free. Questions wait for `max_wait_s` at most."""
    outcome = Outcome(sorted(arrivals, key=lambda a: a.at))
    queue: FairQueue[Arrival] = FairQueue("device", batch_tokens, max_items, LAUNCH_TOKENS)
    jobs: dict[Arrival, Job[Arrival]] = {}
    events: list[tuple[float, int, Callable[[float], None]]] = []
    number = count()
    busy = False

    def at(when: float, what: Callable[[float], None]) -> None:
        heapq.heappush(events, (when, next(number), what))

    def arrive(arrival: Arrival, now: float) -> None:
        try:
            queue.reserve(arrival.tenant, 1)
        except Overloaded:
            arrival.refused = True
            return
        if max_wait_s is not None and arrival.kind == "query":
            try:
                queue.admit(arrival.tenant, arrival.kind, arrival.tokens, now, max_wait_s)
            except Overloaded:
                queue.release(arrival.tenant, 1)
                arrival.refused = True
                return
        jobs[arrival] = Job(arrival.tenant, arrival.kind, arrival.tokens, now + arrival.timeout_s, arrival, now)
        queue.put([jobs[arrival]])
        outcome.most_waiting = max(outcome.most_waiting, queue.waiting)
        start(now)

    def start(now: float) -> None:
        nonlocal busy
        if busy:
            return
        taken = queue.take(now)
        for job in taken.expired:
            job.work.expired = True
        if not taken.jobs:
            return
        busy = True
        batch = [job.work for job in taken.jobs]
        outcome.batches.append(batch)
        for arrival in batch:
            arrival.started = now
        seconds = sorted_run_seconds([a.tokens for a in batch], batch_tokens)
        queue.record(taken.tokens, seconds)
        at(now + seconds, lambda then: finish(batch, then))

    def finish(batch: list[Arrival], now: float) -> None:
        nonlocal busy
        busy = False
        for arrival in batch:
            arrival.done = now
        start(now)

    for arrival in outcome.arrivals:
        at(arrival.at, lambda now, a=arrival: arrive(a, now))
        if arrival.cancelled_at is not None:
            at(arrival.cancelled_at, lambda _, a=arrival: queue.withdraw([jobs[a]] if a in jobs else []))
    while events:
        when, _, what = heapq.heappop(events)
        what(when)
    assert queue.waiting == 0
    return outcome


def fixed_window(arrivals: Iterable[Arrival], wait_s: float = 0.010, max_batch: int = 32) -> Outcome:
    """The usual batcher on the same device: the first text opens a window; after `wait_s`, or when it is full, it runs. Its texts
    are grouped by length just as well, so that what differs is when they run, and which."""
    outcome = Outcome(sorted(arrivals, key=lambda a: a.at))
    waiting = list(outcome.arrivals)
    free = 0.0
    while waiting:
        opens = max(waiting[0].at, free)
        closes = opens + wait_s
        batch = [a for a in waiting[:max_batch] if a.at <= closes]
        start = max(opens, batch[-1].at) if len(batch) == max_batch else closes
        outcome.batches.append(batch)
        free = start + sorted_run_seconds([a.tokens for a in batch], budget=1024)
        for arrival in batch:
            arrival.started, arrival.done = start, free
        waiting = waiting[len(batch) :]
    return outcome


TEXTS = (8, 12, 16, 20, 30, 40, 60, 90, 150, 300)
QUESTIONS = (8, 9, 10, 11, 12, 14, 16, 18, 22, 28)
SATURATED = 0.85
"""What questions in full batches of 512 tokens leave of TOKENS_PER_S: padding and launches take the rest."""


def poisson(
    load: float, seconds: float, tenants: int = 8, seed: int = 1, lengths: Sequence[int] = TEXTS
) -> list[Arrival]:
    """Texts of mixed lengths at `load` times what the device could do without padding or launches."""
    rng = random.Random(seed)
    per_s = load * TOKENS_PER_S / (sum(lengths) / len(lengths))
    arrivals, now = [], 0.0
    while (now := now + rng.expovariate(per_s)) < seconds:
        arrivals.append(Arrival(now, f"tenant_{rng.randrange(tenants)}", rng.choice(lengths)))
    return arrivals
