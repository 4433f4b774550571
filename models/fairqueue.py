"""Which texts run next: fair between tenants by tokens, bounded, and never for somebody who has gone.

Pure: no I/O, no threads, and time is an argument, so that hours of load are tested in milliseconds. Shares follow start-time
fair queueing: each tenant has a counter of the tokens served to it, the least served goes next, and who was away starts at the
present, neither with credit for the time it was idle nor without the debt it left with. Within a tenant the same holds between
its kinds of work, so that its own import does not hold up its own questions.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from memory.errors import Overloaded

W = TypeVar("W")

_SMOOTHING = 0.2
_RETRY_LEAST_S, _RETRY_MOST_S = 1.0, 60.0


@dataclass(eq=False, slots=True)
class Job(Generic[W]):
    """One text. `tokens` is what the device reads for it; `deadline` and `since`, when it was queued, are on the clock that `take` is
    called with; so are `taken` and `done`, which whoever runs it notes down."""

    tenant: str
    kind: str
    tokens: int
    deadline: float
    work: W
    since: float = 0.0
    taken: float = 0.0
    done: float = 0.0


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """What waits for a device and how fast it works: what an autoscaler looks at.

    `queued_tokens / tokens_per_s` is how long the queue takes to drain. `tokens_per_s` is what full runs reach, as measured (0 before
    the first run); `oldest_s` how long the one that waits longest has waited. What the device is running at the moment is not in it.
    """

    queued_items: int
    queued_tokens: int
    tokens_per_s: float
    oldest_s: float


@dataclass(frozen=True, slots=True)
class Taken(Generic[W]):
    """`jobs` to run now, shortest first; `expired` were too late and are not to be run."""

    jobs: list[Job[W]]
    expired: list[Job[W]]

    @property
    def tokens(self) -> int:
        return sum(job.tokens for job in self.jobs)


class _Shares:
    """Tokens served by key, on a clock that is the counter of whoever was served last."""

    def __init__(self) -> None:
        self._clock = 0.0
        self._served: dict[str, float] = {}

    def join(self, key: str) -> None:
        self._served[key] = max(self._served.get(key, 0.0), self._clock)

    def least(self, keys: Iterable[str]) -> str:
        """The least served of `keys`, all of which have joined; the first of equals."""
        return min(keys, key=self._served.__getitem__)

    def charge(self, key: str, tokens: int) -> None:
        self._clock = max(self._clock, self._served[key])
        self._served[key] += tokens

    def prune(self, active: Iterable[str]) -> None:
        """Forget who has nothing more and is not ahead of its share: leaving and coming back clears no debt."""
        keep = set(active)
        self._served = {key: n for key, n in self._served.items() if key in keep or n > self._clock}

    def finish(self) -> None:
        """Nobody waits: all are even again."""
        self._served.clear()
        self._clock = 0.0


@dataclass(slots=True)
class _Tenant(Generic[W]):
    seats: int = 0  # reserved, queued ones included
    queued: dict[str, OrderedDict[Job[W], None]] = field(default_factory=dict)
    shares: _Shares = field(default_factory=_Shares)


class FairQueue(Generic[W]):
    """At most `max_items` jobs wait, and a tenant may never hold more seats than it leaves free: alone half of the queue, the next
    greedy one a quarter, and so on. So an import cannot keep out those who have nothing in the queue yet (P39)."""

    def __init__(self, name: str, batch_tokens: int, max_items: int) -> None:
        self.name = name
        self.batch_tokens = batch_tokens
        self.max_items = max_items
        self._tenants: dict[str, _Tenant[W]] = {}
        self._active: OrderedDict[str, None] = OrderedDict()  # tenants with queued jobs, longest-waiting first
        self._shares = _Shares()
        self._seats = 0
        self._queued_items = 0
        self._queued_tokens = 0
        self._tokens_per_s = 0.0

    @property
    def waiting(self) -> int:
        """Seats taken: jobs that are queued, or still on their way into the queue."""
        return self._seats

    @property
    def queued_items(self) -> int:
        return self._queued_items

    @property
    def queued_tokens(self) -> int:
        return self._queued_tokens

    @property
    def tokens_per_s(self) -> float:
        """As measured by `record`; 0 before the first."""
        return self._tokens_per_s

    @property
    def most_at_once(self) -> int:
        """More than this of one tenant never fit, however empty the queue."""
        return max(self.max_items // 2, 1)

    def reserve(self, tenant: str, count: int) -> None:
        """Take `count` seats, all or none: else Overloaded. A tenant without any may have a single one as long as there is one."""
        held = self._tenants[tenant].seats if tenant in self._tenants else 0
        free = self.max_items - self._seats
        modest = held == 0 and count == 1 and free > 0
        if not modest and held + count > free - count:
            raise Overloaded(self.name, self.retry_after_s)
        self._tenants.setdefault(tenant, _Tenant()).seats += count
        self._seats += count

    def release(self, tenant: str, count: int) -> None:
        """Give back seats whose jobs were never put."""
        mine = self._tenants[tenant]
        mine.seats -= count
        self._seats -= count
        if not mine.seats:
            del self._tenants[tenant]

    def put(self, jobs: Sequence[Job[W]]) -> None:
        """Queue jobs whose seats are reserved."""
        for job in jobs:
            mine = self._tenants[job.tenant]
            if job.tenant not in self._active:
                self._active[job.tenant] = None
                self._shares.join(job.tenant)
            if job.kind not in mine.queued:
                mine.queued[job.kind] = OrderedDict()
                mine.shares.join(job.kind)
            mine.queued[job.kind][job] = None
            self._queued_items += 1
            self._queued_tokens += job.tokens

    def withdraw(self, jobs: Iterable[Job[W]]) -> int:
        """Remove those that are still queued: their caller has gone. How many they were."""
        found = 0
        for job in jobs:
            mine = self._tenants.get(job.tenant)
            if mine and job in mine.queued.get(job.kind, ()):
                self._remove(job)
                found += 1
        return found

    def load(self, now: float) -> QueueLoad:
        """As of `now`, on the clock of the jobs."""
        heads = [next(iter(queued)) for tenant in self._active for queued in self._tenants[tenant].queued.values()]
        oldest = max((now - job.since for job in heads), default=0.0)
        return QueueLoad(self._queued_items, self._queued_tokens, self._tokens_per_s, max(oldest, 0.0))

    def take(self, now: float) -> Taken[W]:
        """Jobs for one run of the device: fair in order, together at most `batch_tokens`, but at least one. O(jobs x tenants)."""
        batch: list[Job[W]] = []
        expired: list[Job[W]] = []
        tokens = 0
        while self._active:
            tenant = self._shares.least(self._active)
            mine = self._tenants[tenant]
            job = next(iter(mine.queued[mine.shares.least(mine.queued)]))
            if job.deadline <= now:
                expired.append(job)
            elif batch and tokens + job.tokens > self.batch_tokens:
                break
            else:
                batch.append(job)
                tokens += job.tokens
                self._shares.charge(tenant, job.tokens)
                mine.shares.charge(job.kind, job.tokens)
            self._remove(job)
        batch.sort(key=lambda job: job.tokens)
        return Taken(batch, expired)

    def drain(self) -> list[Job[W]]:
        """Everything that is queued, taken out."""
        jobs = [job for tenant in self._active for queued in self._tenants[tenant].queued.values() for job in queued]
        self.withdraw(jobs)
        return jobs

    def record(self, tokens: int, seconds: float) -> None:
        """What a run took: the measured rate behind `retry_after_s`."""
        if seconds > 0:
            rate = tokens / seconds
            self._tokens_per_s += (rate - self._tokens_per_s) * (_SMOOTHING if self._tokens_per_s else 1.0)

    @property
    def retry_after_s(self) -> float:
        """Seconds until what waits now will have run, between 1 and 60."""
        if not self._tokens_per_s:
            return _RETRY_LEAST_S
        return min(max(self._queued_tokens / self._tokens_per_s, _RETRY_LEAST_S), _RETRY_MOST_S)

    def _remove(self, job: Job[W]) -> None:
        mine = self._tenants[job.tenant]
        del mine.queued[job.kind][job]
        self._queued_items -= 1
        self._queued_tokens -= job.tokens
        if not mine.queued[job.kind]:
            del mine.queued[job.kind]
            mine.shares.prune(mine.queued)
        if not mine.queued:
            del self._active[job.tenant]
            self._shares.prune(self._active)
            if not self._active:
                self._shares.finish()
        self.release(job.tenant, 1)
