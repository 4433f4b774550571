"""The pull batcher: whenever the device is free, it takes what is queued.

No waiting for company: alone, a text runs at once; under load, batches form by themselves while the device is busy. The order
and the bounds are models/fairqueue.py; here are the asyncio side, the one thread that runs the model, and deadlines.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from memory.encoding import EncodedPassage, EncodedQuery, Passage
from memory.errors import DeadlineExceeded, InvalidInput, Overloaded, StrataError, Unavailable
from memory.ticket import Ticket
from models.fairqueue import FairQueue, Job, QueueLoad

if TYPE_CHECKING:
    from models.encoder import EncoderWork
    from models.reranker import Pair, PairWork

log = logging.getLogger(__name__)

Item = TypeVar("Item", contravariant=True)
Result = TypeVar("Result")
In = TypeVar("In")
Out = TypeVar("Out")

_INLINE_CHARS = 500
"""So little (a question) takes a few ten microseconds, as waking a thread does, and waits for no import in the tokenizer's thread."""
_SLICE, _SLICE_CHARS = 32, 8000
"""Items tokenized in one go, and characters, some five milliseconds: a large submit never keeps a small one waiting for longer."""
_CLOSE_SECONDS = 10.0
_KNOWN_GOOD = "a cup of tea"


class Work(Protocol):
    """A tokenized item. Kinds share a tenant's part evenly."""

    @property
    def kind(self) -> str: ...
    @property
    def tokens(self) -> int: ...


AnyWork = TypeVar("AnyWork", bound=Work)


class Observer(Protocol):
    """Who counts what a queue does. Called in the event loop; must not block, and never sees a text."""

    def ran(self, items: int, tokens: int, seconds: float) -> None:
        """One run of the device: `tokens` as tokenized, without padding."""

    def waited(self, seconds: float) -> None:
        """An item was taken, that long after it was queued."""

    def refused(self, reason: str) -> None:
        """Of each item that never ran: `overloaded`, `expired` (its time was up before its turn came) or `cancelled` (its caller had
        gone)."""

    def queued(self, items: int, tokens: int) -> None:
        """What waits now; told whenever that changed."""

    def answered(self, waited_s: float, ran_s: float) -> None:
        """A submit has its results: how long until the first of its items was taken, and from then until the last was done. Called in
        the context of the submit's caller, for traces."""


class _Nobody:
    """Counts nothing."""

    def ran(self, items: int, tokens: int, seconds: float) -> None: ...
    def waited(self, seconds: float) -> None: ...
    def refused(self, reason: str) -> None: ...
    def queued(self, items: int, tokens: int) -> None: ...
    def answered(self, waited_s: float, ran_s: float) -> None: ...


class Runtime(Protocol[Item, AnyWork, Result]):
    """A model: `tokenize` may run in any thread, `run` in one at a time. Both answer in order, one for one."""

    @property
    def batch_tokens(self) -> int: ...
    @property
    def launch_tokens(self) -> int: ...
    def tokenize(self, items: Sequence[Item], /) -> list[AnyWork]: ...
    def run(self, works: Sequence[AnyWork], /) -> list[Result]: ...


class BatchQueue(Generic[In, Out]):
    """One model, one device, many callers. `name` stands in errors ("the embedding model").

    `max_wait_s` says for a kind of work how long it may have to wait: what would wait longer is refused at the door. Kinds that are not in
    it wait as long as their tickets allow. `known_good` is an item that runs on any device that works: where a batch fails as a
    whole, it is tried, and `check` tells of a device that is dead.
    """

    def __init__(
        self,
        runtime: Runtime[In, Any, Out],
        *,
        name: str,
        max_items: int = 4096,
        max_wait_s: Mapping[str, float] | None = None,
        known_good: In | None = None,
        observer: Observer | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._observer = observer or _Nobody()
        self._runtime = runtime
        self._clock = clock
        self._queue: FairQueue[tuple[Any, asyncio.Future[Out]]] = FairQueue(
            name, runtime.batch_tokens, max_items, runtime.launch_tokens
        )
        self._max_wait_s = dict(max_wait_s or {})
        self._known_good = known_good
        self._wake = asyncio.Event()
        self._device = ThreadPoolExecutor(1, thread_name_prefix="device")
        self._tokenizer = ThreadPoolExecutor(1, thread_name_prefix="tokenizer")
        self._pump: asyncio.Task[None] | None = None
        self._running_since: float | None = None
        self._dead = False
        self._closed = False

    @property
    def waiting(self) -> int:
        """Items that wait or are on their way into the queue."""
        return self._queue.waiting

    def load(self) -> QueueLoad:
        """What waits now and how fast the device works, for an autoscaler and for metrics."""
        return self._queue.load(self._clock())

    @property
    def most_at_once(self) -> int:
        """Items that one submit may hold."""
        return self._queue.most_at_once

    def check(self, stall_s: float = 60.0) -> None:
        """Unavailable where the model no longer answers: closed, one run has taken more than `stall_s` seconds, or the device failed
        even at what it can always do."""
        stalled = self._running_since is not None and self._clock() - self._running_since > stall_s
        if self._closed or self._dead or stalled or (self._pump is not None and self._pump.done()):
            raise Unavailable(self.name)

    async def submit(self, ticket: Ticket, items: Sequence[In]) -> list[Out]:
        """One result for each item, in order: all, or the first error.

        Overloaded where the queue or the tenant's part of it is full, or where it would wait for too long (nothing of the submit is
        queued then);
        InvalidInput where the items could never fit; DeadlineExceeded `ticket.timeout_s` seconds from now; Unavailable where the
        model fails, or `close` came first. A caller that is cancelled takes its items with it.
        """
        if self._closed:
            raise Unavailable(self.name)
        if not items:
            return []
        if len(items) > self.most_at_once:
            raise InvalidInput("items", f"send at most {self.most_at_once} texts in one call")
        if ticket.timeout_s <= 0:
            raise DeadlineExceeded(self.name)
        if self._pump is None:
            self._pump = asyncio.create_task(self._run_batches(), name=f"batches of {self.name}")
        deadline = self._clock() + ticket.timeout_s
        try:
            self._queue.reserve(ticket.tenant_id, len(items))
        except Overloaded:
            self._refused("overloaded", len(items))
            raise
        unused = len(items)
        jobs: list[Job[tuple[Any, asyncio.Future[Out]]]] = []
        reason = "cancelled"  # also where another item failed: nobody waits for the rest
        try:
            async with asyncio.timeout(ticket.timeout_s):
                for part in _slices(items):
                    works = await self._tokenized(part)
                    if self._closed:
                        raise Unavailable(self.name)
                    if not jobs:
                        self._admit(ticket, works)
                    new = self._jobs(ticket, works, deadline)
                    jobs += new
                    unused -= len(new)
                    self._queue.put(new)
                    self._tell_queued()
                    self._wake.set()
                results = list(await asyncio.gather(*(job.work[1] for job in jobs)))
                taken = min(job.taken for job in jobs)
                self._observer.answered(taken - min(job.since for job in jobs), max(job.done for job in jobs) - taken)
                return results
        except Overloaded:
            reason = "overloaded"
            raise
        except TimeoutError:
            reason = "expired"
            raise DeadlineExceeded(self.name) from None
        finally:
            if unused:
                self._queue.release(ticket.tenant_id, unused)
            if withdrawn := self._queue.withdraw(jobs):
                self._tell_queued()
            self._refused(reason, unused + withdrawn)
            for job in jobs:
                future = job.work[1]
                if future.done() and not future.cancelled():
                    future.exception()  # seen: two items may fail, the caller is told of the first
                future.cancel()

    async def close(self) -> None:
        """Finish the run in progress, fail what is queued with Unavailable, and stop the threads."""
        self._closed = True
        for job in self._queue.drain():
            _fail(job.work[1], Unavailable(self.name))
        self._wake.set()
        if self._pump is not None:
            _, unfinished = await asyncio.wait([self._pump], timeout=_CLOSE_SECONDS)
            for task in unfinished:
                task.cancel()
        self._device.shutdown(wait=False, cancel_futures=True)
        self._tokenizer.shutdown(wait=False, cancel_futures=True)

    def _jobs(self, ticket: Ticket, works: list[Any], deadline: float) -> list[Job[tuple[Any, "asyncio.Future[Out]"]]]:
        loop = asyncio.get_running_loop()
        now = self._clock()
        return [
            Job(ticket.tenant_id, work.kind, work.tokens, deadline, (work, loop.create_future()), now) for work in works
        ]

    def _tell_queued(self) -> None:
        self._observer.queued(self._queue.queued_items, self._queue.queued_tokens)

    def _admit(self, ticket: Ticket, works: list[Any]) -> None:
        tokens = Counter[str]()
        for work in works:
            tokens[work.kind] += work.tokens
        for kind, count in tokens.items():
            if kind in self._max_wait_s:
                self._queue.admit(ticket.tenant_id, kind, count, self._clock(), self._max_wait_s[kind])

    def _refused(self, reason: str, items: int) -> None:
        for _ in range(items):
            self._observer.refused(reason)

    async def _tokenized(self, items: Sequence[In]) -> list[Any]:
        if sum(_chars(item) for item in items) <= _INLINE_CHARS:
            return self._runtime.tokenize(items)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._tokenizer, self._runtime.tokenize, items)

    async def _run_batches(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._closed:
            await self._wake.wait()
            taken = self._queue.take(self._clock())
            for job in taken.expired:
                _fail(job.work[1], DeadlineExceeded(self.name))
            self._refused("expired", len(taken.expired))
            if taken.expired or taken.jobs:
                self._tell_queued()
            if not taken.jobs:
                self._wake.clear()
                continue
            self._running_since = started = self._clock()
            for job in taken.jobs:
                job.taken = started
                self._observer.waited(started - job.since)
            results = await loop.run_in_executor(self._device, self._run, [job.work[0] for job in taken.jobs])
            seconds = self._clock() - started
            if not all(isinstance(result, StrataError) for result in results):
                self._dead = False
            elif self._known_good is not None:
                await loop.run_in_executor(self._device, self._try, self._known_good)
            self._running_since = None
            self._queue.record(taken.tokens, seconds)
            self._observer.ran(len(taken.jobs), taken.tokens, seconds)
            for job, result in zip(taken.jobs, results, strict=True):
                job.done = started + seconds
                future = job.work[1]
                if isinstance(result, StrataError):
                    _fail(future, result)
                elif not future.done():
                    future.set_result(result)

    def _run(self, works: list[Any]) -> list[Out | StrataError]:
        """In the device's thread; never raises. Where a batch fails, each of its items is tried once alone, so that one text that
        the model cannot take does not fail the texts beside it."""
        try:
            return list(self._runtime.run(works))
        except Exception as error:  # torch raises almost anything; the type alone is told: a message may quote the text
            log.error("%s failed on a batch of %d: %s", self.name, len(works), type(error).__name__)
            if len(works) == 1:
                return [error if isinstance(error, StrataError) else Unavailable(self.name)]
            return [result for work in works for result in self._run([work])]

    def _try(self, item: In) -> None:
        """In the device's thread: a text of somebody's may be to blame, this one is not."""
        try:
            self._runtime.run(self._runtime.tokenize([item]))
            self._dead = False
        except Exception as error:
            log.error("%s is dead: %s", self.name, type(error).__name__)
            self._dead = True


class EncoderQueue(BatchQueue[str | Passage, EncodedQuery | EncodedPassage]):
    """The embedding model behind its queue, with its two kinds of work by their types. Questions wait no longer than `max_wait_s`."""

    def __init__(
        self,
        encoder: "Runtime[str | Passage, EncoderWork, EncodedQuery | EncodedPassage]",
        max_items: int = 4096,
        observer: Observer | None = None,
        max_wait_s: float | None = None,
    ) -> None:
        super().__init__(
            encoder,
            name="the embedding model",
            max_items=max_items,
            max_wait_s={"query": max_wait_s} if max_wait_s else None,
            known_good=_KNOWN_GOOD,
            observer=observer,
        )

    async def queries(self, ticket: Ticket, texts: Sequence[str]) -> list[EncodedQuery]:
        """As `submit`."""
        return cast(list[EncodedQuery], await self.submit(ticket, texts))

    async def passages(self, ticket: Ticket, passages: Sequence[Passage]) -> list[EncodedPassage]:
        """As `submit`."""
        return cast(list[EncodedPassage], await self.submit(ticket, passages))


class RerankerQueue(BatchQueue["Pair", float]):
    """The reranker behind its queue."""

    def __init__(
        self,
        reranker: "Runtime[Pair, PairWork, float]",
        max_items: int = 4096,
        observer: Observer | None = None,
        max_wait_s: float | None = None,
    ) -> None:
        from models.reranker import Pair

        super().__init__(
            reranker,
            name="the reranker",
            max_items=max_items,
            max_wait_s={"pair": max_wait_s} if max_wait_s else None,
            known_good=Pair(_KNOWN_GOOD, _KNOWN_GOOD),
            observer=observer,
        )


def _fail(future: "asyncio.Future[Any]", error: StrataError) -> None:
    if not future.done():
        future.set_exception(error)


def _slices(items: Sequence[In]) -> Iterator[Sequence[In]]:
    begin = 0
    while begin < len(items):
        end, chars = begin, 0
        while (
            end < len(items) and end - begin < _SLICE and (end == begin or chars + _chars(items[end]) <= _SLICE_CHARS)
        ):
            chars += _chars(items[end])
            end += 1
        yield items[begin:end]
        begin = end


def _chars(item: object) -> int:
    """Characters that the tokenizer will read, whatever dataclass holds them."""
    if isinstance(item, str):
        return len(item)
    if isinstance(item, Passage):
        return 2 * len(item.text) + len(item.context)
    chars: int = getattr(item, "chars", _INLINE_CHARS + 1)
    return chars
