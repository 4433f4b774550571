"""Which texts run next: fair between tenants by tokens, bounded, and never for somebody who has gone.

Pure: no I/O, no threads, and time is an argument, so that hours of load are tested in milliseconds. Shares follow start-time
fair queueing: each tenant has a counter of the tokens served to it, the least served goes next, and who was away starts at the
present, neither with credit for the time it was idle nor without the debt it left with. Within a tenant the same holds between
its kinds of work, so that its own import does not hold up its own questions.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from memory.errors import Overloaded

W = TypeVar("W")

_KEPT = 0.8
"""What a run leaves of the weight of those before it."""
_RETRY_LEAST_S, _RETRY_MOST_S = 1.0, 60.0
_LITTLE_SHARE = 0.1
"""Of a full run: so little ahead of a question is never too much, or one slow run would turn away those after it."""
_STANDING_SHARE = 0.35
"""Of a full run: so much may be ahead of a question in a queue that does not get empty any more."""


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


class Pace:
    """How fast a device works, from its runs: a run takes as long as its tokens and, for starting at all, `launch_tokens` more.

    Without the latter, small runs would pass for a slow device, and a burst onto an idle one be refused for nothing.
    """

    def __init__(self, launch_tokens: int) -> None:
        self.launch_tokens = launch_tokens
        self._tokens = 0.0
        self._seconds = 0.0

    def record(self, tokens: int, seconds: float) -> None:
        if seconds > 0:
            self._tokens = _KEPT * self._tokens + tokens + self.launch_tokens
            self._seconds = _KEPT * self._seconds + seconds

    def seconds(self, tokens: int, run_tokens: int) -> float:
        """For so many, in runs of `run_tokens`; 0 where nothing ran yet."""
        if not self._seconds:
            return 0.0
        launches = -(-tokens // run_tokens) * self.launch_tokens
        return (tokens + launches) * self._seconds / self._tokens

    def tokens_per_s(self, run_tokens: int) -> float:
        """In full runs of so many; 0 where nothing ran yet."""
        return run_tokens / self.seconds(run_tokens, run_tokens) if self._seconds else 0.0


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

    def before(self, key: str, own: int, others: Iterable[tuple[str, int, int]]) -> int:
        """Tokens that are served before the next job of `key` which has `own` of its own waiting already.

        `others` are (key, tokens waiting, tokens of the first job). Each goes on as long as its counter is not above that of `key`, and
        its last job may overshoot.
        """
        turn = max(self._served.get(key, 0.0), self._clock) + own
        ahead = float(own)
        for other, waiting, first in others:
            behind = turn - self._served[other]
            if other != key and behind >= 0:
                ahead += min(waiting, behind + first)
        return int(ahead)

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
    tokens: Counter[str] = field(default_factory=Counter)  # by kind
    shares: _Shares = field(default_factory=_Shares)

    def first(self, kind: str | None = None) -> Job[W]:
        """Of a kind, or of all."""
        return next(iter(self.queued[kind or self.shares.least(self.queued)]))


class FairQueue(Generic[W]):
    """At most `max_items` jobs wait, and a tenant may never hold more seats than it leaves free: alone half of the queue, the next
    greedy one a quarter, and so on. So an import cannot keep out those who have nothing in the queue yet (P39)."""

    def __init__(self, name: str, batch_tokens: int, max_items: int, launch_tokens: int = 0) -> None:
        self.name = name
        self.batch_tokens = batch_tokens
        self.max_items = max_items
        self._tenants: dict[str, _Tenant[W]] = {}
        self._active: OrderedDict[str, None] = OrderedDict()  # tenants with queued jobs, longest-waiting first
        self._shares = _Shares()
        self._seats = 0
        self._queued_items = 0
        self._queued_tokens = 0
        self._pace = Pace(launch_tokens)
        self._busy_since: float | None = None

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
        """What full runs reach, as measured by `record`; 0 before the first."""
        return self._pace.tokens_per_s(self.batch_tokens)

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

    def ahead(self, tenant: str, kind: str) -> int:
        """Tokens that will run before a job of this tenant and kind that were put now: its own, and what others are served of theirs
        until its share's turn has come. Another tenant's backlog beyond that does not count (P39)."""
        own = 0
        mine = self._tenants.get(tenant)
        if mine is not None and mine.queued:
            kinds = [(one, mine.tokens[one], mine.first(one).tokens) for one in mine.queued]
            own = mine.shares.before(kind, mine.tokens[kind], kinds)
        return self._shares.before(tenant, own, [self._waiting(one) for one in self._active])

    def _waiting(self, tenant: str) -> tuple[str, int, int]:
        theirs = self._tenants[tenant]
        return tenant, theirs.tokens.total(), theirs.first().tokens

    def admit(self, tenant: str, kind: str, tokens: int, now: float, max_wait_s: float) -> None:
        """Overloaded where `tokens` of this tenant would come too late: what is ahead of them takes more than `max_wait_s` seconds; or
        the device has not been idle for as long, and more is ahead than they are themselves and a third of a full run.

        So a burst is waited for, as long as it goes by in that time. In a queue that stands, waiting helps nobody: as many are
        refused, and those who are not get their answer as soon as they can.
        """
        ahead = self.ahead(tenant, kind)
        if ahead <= _LITTLE_SHARE * self.batch_tokens:
            return
        wait_s = self._pace.seconds(ahead, self.batch_tokens)
        standing = self._busy_since is not None and now - self._busy_since > max_wait_s
        if wait_s > max_wait_s or (standing and ahead > max(tokens, _STANDING_SHARE * self.batch_tokens)):
            raise Overloaded(self.name, _bounded(wait_s))

    def put(self, jobs: Sequence[Job[W]]) -> None:
        """Queue jobs whose seats are reserved."""
        if jobs and self._busy_since is None:
            self._busy_since = jobs[0].since
        for job in jobs:
            mine = self._tenants[job.tenant]
            if job.tenant not in self._active:
                self._active[job.tenant] = None
                self._shares.join(job.tenant)
            if job.kind not in mine.queued:
                mine.queued[job.kind] = OrderedDict()
                mine.shares.join(job.kind)
            mine.queued[job.kind][job] = None
            mine.tokens[job.kind] += job.tokens
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
        return QueueLoad(self._queued_items, self._queued_tokens, self.tokens_per_s, max(oldest, 0.0))

    def take(self, now: float) -> Taken[W]:
        """Jobs for one run of the device: fair in order, together at most `batch_tokens`, but at least one. O(jobs x tenants)."""
        batch: list[Job[W]] = []
        expired: list[Job[W]] = []
        tokens = 0
        while self._active:
            tenant = self._shares.least(self._active)
            mine = self._tenants[tenant]
            job = mine.first()
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
        if not batch:  # whoever asks has a free device, and there is nothing to run
            self._busy_since = None
        batch.sort(key=lambda job: job.tokens)
        return Taken(batch, expired)

    def drain(self) -> list[Job[W]]:
        """Everything that is queued, taken out."""
        jobs = [job for tenant in self._active for queued in self._tenants[tenant].queued.values() for job in queued]
        self.withdraw(jobs)
        return jobs

    def record(self, tokens: int, seconds: float) -> None:
        """What a run took."""
        self._pace.record(tokens, seconds)

    @property
    def retry_after_s(self) -> float:
        """Seconds until what waits now will have run, between 1 and 60."""
        return _bounded(self._pace.seconds(self._queued_tokens, self.batch_tokens))

    def _remove(self, job: Job[W]) -> None:
        mine = self._tenants[job.tenant]
        del mine.queued[job.kind][job]
        mine.tokens[job.kind] -= job.tokens
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


def _bounded(seconds: float) -> float:
    return min(max(seconds, _RETRY_LEAST_S), _RETRY_MOST_S)
