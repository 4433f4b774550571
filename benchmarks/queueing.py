"""What a question waits for when the encoder is busy, and when it is more than busy.

    python -m benchmarks.queueing [--seconds 8] [--rounds 2] [--json FILE]

Open loop: questions of eight tenants, one of them with a third of them, arrive by a Poisson process at 60 % and at 120 % of what the
encoder was just measured to do, whether or not the ones before have been answered. The queue of models/batching.py stands beside the
usual batcher (the first text opens a window of 10 ms, or 32 texts run at once). Latency counts from the moment of arrival. The two take
turns, and what the encoder does is measured anew before each round: a busy machine is slow for all.
"""

import argparse
import asyncio
import os
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.report import Row, tell
from memory.encoding import EncodedQuery
from memory.errors import DeadlineExceeded, Overloaded
from memory.ids import TenantId
from memory.ticket import Ticket
from models.batching import EncoderQueue
from models.encoder import Encoder, EncoderSettings
from models.measuring import sample

TENANTS = 8
DEADLINE_S = 5.0
WINDOW_S, WINDOW_TEXTS = 0.010, 32
_LONGEST = 60
"""Characters: questions are short."""

Ask = Callable[[str, str], Awaitable[object]]
"""A tenant's question."""


@dataclass
class Outcome:
    """Seconds of those answered; how many were refused at the door, and how many too late."""

    answered: list[float] = field(default_factory=list)
    refused: int = 0
    late: int = 0

    def percentile(self, share: float) -> float:
        """In milliseconds."""
        ordered = sorted(self.answered)
        return 1000 * ordered[min(int(share * len(ordered)), len(ordered) - 1)]

    def add(self, other: "Outcome") -> None:
        self.answered += other.answered
        self.refused += other.refused
        self.late += other.late

    @property
    def refused_share(self) -> float:
        return (self.refused + self.late) / (len(self.answered) + self.refused + self.late)


class WindowBatcher:
    """As most serving libraries batch: unbounded, first come first served, a wait for company."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._waiting: asyncio.Queue[tuple[str, asyncio.Future[EncodedQuery]]] = asyncio.Queue()
        self._device = ThreadPoolExecutor(1)
        self._runs = asyncio.create_task(self._run())

    async def ask(self, tenant: str, question: str) -> EncodedQuery:
        answer: asyncio.Future[EncodedQuery] = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait((question, answer))
        try:
            return await asyncio.wait_for(answer, DEADLINE_S)
        except TimeoutError:
            raise DeadlineExceeded("the window batcher") from None

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self._waiting.get()]
            closes = loop.time() + WINDOW_S
            while len(batch) < WINDOW_TEXTS and (left := closes - loop.time()) > 0:
                try:
                    batch.append(await asyncio.wait_for(self._waiting.get(), left))
                except TimeoutError:
                    break
            texts = [question for question, _ in batch]
            results = await loop.run_in_executor(self._device, self._encoder.encode_queries, texts)
            for (_, answer), result in zip(batch, results, strict=True):
                if not answer.done():
                    answer.set_result(result)

    async def close(self) -> None:
        self._runs.cancel()
        await asyncio.gather(self._runs, return_exceptions=True)
        self._device.shutdown(wait=True)


def questions() -> list[str]:
    return [line for line in sample() if len(line) <= _LONGEST]


async def capacity(encoder: Encoder, seconds: float = 5.0) -> float:
    """Questions a second when there are always enough of them."""
    queue = EncoderQueue(encoder)
    texts = questions()
    answered = 0
    ends = time.perf_counter() + seconds

    async def caller(number: int) -> None:
        nonlocal answered
        at = number
        while time.perf_counter() < ends:
            await queue.queries(Ticket(TenantId(f"tenant_{number % TENANTS}"), 60.0), [texts[at % len(texts)]])
            at += 17
            answered += 1

    start = time.perf_counter()
    await asyncio.gather(*(caller(number) for number in range(64)))
    taken = time.perf_counter() - start
    await queue.close()
    return answered / taken


async def open_loop(ask: Ask, per_second: float, seconds: float, seed: int) -> Outcome:
    rng = random.Random(seed)
    texts, outcome = questions(), Outcome()
    weights = [4.0] + [1.0] * (TENANTS - 1)

    async def one(due: float, tenant: str, question: str) -> None:
        try:
            await ask(tenant, question)
        except Overloaded:
            outcome.refused += 1
        except DeadlineExceeded:
            outcome.late += 1
        else:
            outcome.answered.append(time.perf_counter() - due)

    start = time.perf_counter()
    due, running = start, set()
    while (due := due + rng.expovariate(per_second)) < start + seconds:
        (tenant,) = rng.choices(range(TENANTS), weights)
        question = rng.choice(texts)
        if (early := due - time.perf_counter()) > 0:
            await asyncio.sleep(early)
        task = asyncio.create_task(one(due, f"tenant_{tenant}", question))
        running.add(task)
        task.add_done_callback(running.discard)
    await asyncio.gather(*running)
    return outcome


async def through_queue(encoder: Encoder, max_wait_s: float, per_second: float, seconds: float, seed: int) -> Outcome:
    queue = EncoderQueue(encoder, max_wait_s=max_wait_s)

    async def ask(tenant: str, question: str) -> object:
        return await queue.queries(Ticket(TenantId(tenant), DEADLINE_S), [question])

    try:
        return await open_loop(ask, per_second, seconds, seed)
    finally:
        await queue.close()


async def through_window(encoder: Encoder, per_second: float, seconds: float, seed: int) -> Outcome:
    batcher = WindowBatcher(encoder)
    try:
        return await open_loop(batcher.ask, per_second, seconds, seed)
    finally:
        await batcher.close()


def rows(seconds: float = 8.0, rounds: int = 2, seed: int = 11, max_wait_s: float | None = None) -> list[Row]:
    """In each round four runs of `seconds` each, and three seconds more."""
    settings = EncoderSettings() if max_wait_s is None else EncoderSettings(max_wait_s=max_wait_s)
    encoder = Encoder.load(settings)
    encoder.warm_up()
    most: list[float] = []
    found = {(name, load): Outcome() for name in ("queue", "window") for load in (0.6, 1.2)}

    async def all_runs() -> None:
        for turn in range(rounds):
            most.append(await capacity(encoder, 3.0))
            for load in (0.6, 1.2):
                rate = load * most[-1]
                found["queue", load].add(await through_queue(encoder, settings.max_wait_s, rate, seconds, seed + turn))
                found["window", load].add(await through_window(encoder, rate, seconds, seed + turn))

    asyncio.run(all_runs())
    calm, full = found["queue", 0.6], found["queue", 1.2]
    their_calm, their_full = found["window", 0.6], found["window", 1.2]
    window = f"window of {1000 * WINDOW_S:.0f} ms, {WINDOW_TEXTS} texts"

    def against_window(what: str, share: float, ours: Outcome, theirs: Outcome) -> Row:
        return Row(what, ours.percentile(share), "ms", window, theirs.percentile(share), 1.0, "lower")

    return [
        against_window("question, p50 at 60 % load", 0.5, calm, their_calm),
        against_window("question, p50 at 120 % load", 0.5, full, their_full),
        Row(
            "question, p99 at 120 % load",
            full.percentile(0.99),
            "ms",
            "ours at 60 %",
            calm.percentile(0.99),
            3.0,
            "lower",
        ),
        Row(
            "the window's p99 at 120 % load",
            their_full.percentile(0.99),
            "ms",
            "its own at 60 %",
            their_calm.percentile(0.99),
        ),
        Row("told at once to do without, at 60 % load", 100 * calm.refused_share, "%"),
        Row("told at once to do without, at 120 % load", 100 * full.refused_share, "%"),
        Row("answered at 120 % load", len(full.answered) / (rounds * seconds), "/s", "capacity", statistics.mean(most)),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each of the four runs of a round")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument(
        "--max-wait", type=float, default=None, help="EncoderSettings.max_wait_s; its default otherwise"
    )
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    found = rows(given.seconds, given.rounds, given.seed, given.max_wait)
    tell(found, "Queueing: open loop, Poisson, eight tenants", given.json)


if __name__ == "__main__":
    main()
