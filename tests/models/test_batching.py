"""The queue's asyncio side on real threads: deadlines, cancellation, failures, closing. The device here is held by the test."""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from memory.encoding import EncodedPassage, EncodedQuery, Passage
from memory.errors import DeadlineExceeded, InvalidInput, Overloaded, Unavailable
from memory.ids import TenantId
from memory.ticket import Ticket
from models.batching import BatchQueue, EncoderQueue
from models.fairqueue import QueueLoad


@dataclass
class Text:
    text: str
    kind: str = "query"

    @property
    def tokens(self) -> int:
        return len(self.text)


class Device:
    """Answers a text with its upper case, once the test lets it run. It fails on "bad" and notes what reaches it."""

    batch_tokens = 100
    launch_tokens = 0

    def __init__(self, free: bool = True) -> None:
        self.gate = threading.Event()
        if free:
            self.gate.set()
        self.ran: list[list[str]] = []
        self.started = threading.Event()
        self.threads: set[str] = set()
        self.kind = "query"
        self.broken = False

    def tokenize(self, items: Sequence[str]) -> list[Text]:
        return [Text(item, self.kind) for item in items]

    def run(self, works: Sequence[Text]) -> list[str]:
        self.threads.add(threading.current_thread().name)
        self.ran.append([work.text for work in works])
        self.started.set()
        assert self.gate.wait(10)
        if self.broken or any(work.text == "bad" for work in works):
            raise RuntimeError("cannot take: " + " ".join(work.text for work in works))
        return [work.text.upper() for work in works]


def ticket(tenant: str = "acme", timeout_s: float = 5.0) -> Ticket:
    return Ticket(TenantId(tenant), timeout_s)


def queue_of(device: Device, max_items: int = 100) -> BatchQueue[str, str]:
    return BatchQueue(device, name="the model", max_items=max_items)


async def held(queue: BatchQueue[str, str], device: Device) -> "asyncio.Task[list[str]]":
    """A submit that occupies the device until its gate opens."""
    task = asyncio.create_task(queue.submit(ticket("holder"), ["held"]))
    assert await asyncio.to_thread(device.started.wait, 5)
    return task


async def settled(queue: BatchQueue[str, str], waiting: int) -> None:
    async with asyncio.timeout(5):
        while queue.waiting != waiting:  # noqa: ASYNC110 - the queue has no event for this, and needs none
            await asyncio.sleep(0.001)


async def test_results_come_in_the_order_of_the_items():
    queue = queue_of(Device())
    assert await queue.submit(ticket(), ["ccc", "a", "bb"]) == ["CCC", "A", "BB"]
    assert await queue.submit(ticket(), []) == []
    await queue.close()


async def test_what_comes_while_the_device_is_busy_runs_together_in_one_thread():
    device = Device(free=False)
    queue = queue_of(device)
    first = await held(queue, device)
    more = [asyncio.create_task(queue.submit(ticket(f"tenant_{i}"), [f"text {i}"])) for i in range(5)]
    await settled(queue, 5)
    device.gate.set()
    assert await first == ["HELD"]
    assert await asyncio.gather(*more) == [[f"TEXT {i}"] for i in range(5)]
    assert [len(batch) for batch in device.ran] == [1, 5]
    assert len(device.threads) == 1
    await queue.close()


async def test_a_large_submit_is_tokenized_in_slices_and_still_answers_in_order():
    queue = queue_of(Device(), max_items=1000)
    texts = [f"text number {i}" + " and more" * 20 for i in range(150)]
    assert await queue.submit(ticket(), texts) == [text.upper() for text in texts]
    assert queue.waiting == 0
    await queue.close()


@pytest.mark.parametrize(
    ("lengths", "slices"),
    [
        ([10] * 70, [32, 32, 6]),
        ([3000] * 5, [2, 2, 1]),
        ([9000, 10, 9000, 9000], [1, 1, 1, 1]),
        ([4000, 4000, 1], [2, 1]),
    ],
)
async def test_a_slice_is_of_few_items_and_few_characters(lengths, slices):
    """What stands in the one tokenizer's thread is short, whatever is sent: somebody's question may come next."""
    device = Device()
    tokenized: list[int] = []
    plain = device.tokenize

    def tokenize(items: Sequence[str]) -> list[Text]:
        tokenized.append(len(items))
        return plain(items)

    device.tokenize = tokenize  # type: ignore[method-assign]
    queue = queue_of(device, max_items=1000)
    await queue.submit(ticket(), ["x" * length for length in lengths])
    assert tokenized == slices
    await queue.close()


async def test_past_its_deadline_work_is_not_run_and_its_caller_told_in_time():
    device = Device(free=False)
    queue = queue_of(device)
    first = await held(queue, device)
    loop = asyncio.get_running_loop()
    start = loop.time()
    with pytest.raises(DeadlineExceeded) as late:
        await queue.submit(ticket(timeout_s=0.05), ["late"])
    assert loop.time() - start < 1.0  # the device is still held: nobody waits for it
    assert late.value.what == "the model"
    assert queue.waiting == 0
    device.gate.set()
    await first
    assert device.ran == [["held"]]
    await queue.close()


@pytest.mark.parametrize("timeout_s", [0.0, -1.0])
async def test_no_time_left_is_no_time(timeout_s):
    device = Device()
    with pytest.raises(DeadlineExceeded):
        await queue_of(device).submit(ticket(timeout_s=timeout_s), ["x"])
    assert device.ran == []


async def test_a_cancelled_caller_takes_its_texts_with_it():
    device = Device(free=False)
    queue = queue_of(device)
    first = await held(queue, device)
    going = asyncio.create_task(queue.submit(ticket(), ["gone 1", "gone 2"]))
    staying = asyncio.create_task(queue.submit(ticket(), ["stays"]))
    await settled(queue, 3)
    going.cancel()
    await settled(queue, 1)
    device.gate.set()
    assert await staying == ["STAYS"]
    await first
    assert device.ran == [["held"], ["stays"]]
    await queue.close()


async def test_cancelled_while_it_runs_harms_nobody():
    device = Device(free=False)
    queue = queue_of(device)
    first = await held(queue, device)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    device.gate.set()
    assert await queue.submit(ticket(), ["next"]) == ["NEXT"]
    await queue.close()


async def test_a_full_queue_refuses_at_once_and_queues_nothing_of_it():
    device = Device(free=False)
    queue = queue_of(device, max_items=8)
    first = await held(queue, device)
    waiting = asyncio.create_task(queue.submit(ticket("a"), ["1", "2", "3", "4"]))
    await settled(queue, 4)
    with pytest.raises(Overloaded) as full:
        await queue.submit(ticket("a"), ["5"])
    assert full.value.retry_after_s >= 1
    other = asyncio.create_task(queue.submit(ticket("b"), ["b"]))  # P39: others still get in
    await settled(queue, 5)
    device.gate.set()
    assert await waiting == ["1", "2", "3", "4"]
    assert await other == ["B"]
    await first
    await queue.close()


async def test_a_submit_that_can_never_fit_says_how_many_would():
    with pytest.raises(InvalidInput, match="at most 50 texts"):
        await queue_of(Device()).submit(ticket(), ["x"] * 51)


async def test_one_bad_text_fails_alone(caplog):
    device = Device(free=False)
    queue = queue_of(device)
    first = await held(queue, device)
    good = asyncio.create_task(queue.submit(ticket("a"), ["good"]))
    bad = asyncio.create_task(queue.submit(ticket("b"), ["bad"]))
    await settled(queue, 2)
    device.gate.set()
    assert await good == ["GOOD"]
    with pytest.raises(Unavailable) as failed:
        await bad
    assert failed.value.what == "the model"
    await first
    assert "RuntimeError" in caplog.text
    assert "cannot take" not in caplog.text  # a model's message may quote the text
    assert await queue.submit(ticket(), ["after"]) == ["AFTER"]
    await queue.close()


async def test_closing_finishes_what_runs_and_fails_what_waits():
    device = Device(free=False)
    queue = queue_of(device)
    first = await held(queue, device)
    second = asyncio.create_task(queue.submit(ticket(), ["waits"]))
    await settled(queue, 1)
    closing = asyncio.create_task(queue.close())
    with pytest.raises(Unavailable):
        await second
    device.gate.set()
    await closing
    assert await first == ["HELD"]
    assert device.ran == [["held"]]
    with pytest.raises(Unavailable):
        await queue.submit(ticket(), ["too late"])
    with pytest.raises(Unavailable):
        queue.check()


async def test_a_device_that_hangs_is_noticed():
    device = Device(free=False)
    queue = queue_of(device)
    queue.check()
    first = await held(queue, device)
    queue.check(stall_s=60)
    await asyncio.sleep(0.02)
    with pytest.raises(Unavailable):
        queue.check(stall_s=0.01)
    device.gate.set()
    await first
    queue.check(stall_s=0.01)
    await queue.close()


class Counts:
    """An Observer that keeps what it is told."""

    def __init__(self) -> None:
        self.runs: list[tuple[int, int, float]] = []
        self.waits: list[float] = []
        self.reasons: list[str] = []
        self.queues: list[tuple[int, int]] = []
        self.answers: list[tuple[float, float]] = []

    def ran(self, items: int, tokens: int, seconds: float) -> None:
        self.runs.append((items, tokens, seconds))

    def waited(self, seconds: float) -> None:
        self.waits.append(seconds)

    def refused(self, reason: str) -> None:
        self.reasons.append(reason)

    def queued(self, items: int, tokens: int) -> None:
        self.queues.append((items, tokens))

    def answered(self, waited_s: float, ran_s: float) -> None:
        self.answers.append((waited_s, ran_s))


async def test_what_waits_and_how_fast_it_goes_is_told():
    """For the autoscaler: what runs already is not counted as waiting."""
    now = 100.0
    device = Device(free=False)
    queue = BatchQueue(device, name="the model", clock=lambda: now)
    assert queue.load() == QueueLoad(queued_items=0, queued_tokens=0, tokens_per_s=0.0, oldest_s=0.0)
    first = await held(queue, device)
    older = asyncio.create_task(queue.submit(ticket("a"), ["12345", "123"]))
    await settled(queue, 2)
    now += 2.0
    younger = asyncio.create_task(queue.submit(ticket("b"), ["1234"]))
    await settled(queue, 3)
    assert queue.load() == QueueLoad(queued_items=3, queued_tokens=12, tokens_per_s=0.0, oldest_s=2.0)
    device.gate.set()
    await asyncio.gather(first, older, younger)
    load = queue.load()
    assert (load.queued_items, load.queued_tokens, load.oldest_s) == (0, 0, 0.0)
    assert load.tokens_per_s > 0
    await queue.close()


async def test_the_observer_sees_each_item_once():
    device, counts = Device(free=False), Counts()
    queue = BatchQueue(device, name="the model", max_items=8, observer=counts)
    first = await held(queue, device)
    with pytest.raises(DeadlineExceeded):
        await queue.submit(ticket("late", timeout_s=0.02), ["late"])
    assert counts.reasons == ["expired"]
    gone = asyncio.create_task(queue.submit(ticket("gone"), ["1", "2"]))
    await settled(queue, 2)
    gone.cancel()
    await settled(queue, 0)
    stays = asyncio.create_task(queue.submit(ticket("stays"), ["abc", "d"]))
    await settled(queue, 2)
    with pytest.raises(Overloaded):
        await queue.submit(ticket("stays"), ["x"] * 4)
    assert counts.reasons == ["expired", "cancelled", "cancelled", *["overloaded"] * 4]
    device.gate.set()
    await asyncio.gather(first, stays)
    assert [(items, tokens) for items, tokens, _ in counts.runs] == [(1, 4), (2, 4)]
    assert all(seconds >= 0 for *_, seconds in counts.runs)
    assert len(counts.waits) == 3
    assert all(seconds >= 0 for seconds in counts.waits)
    assert len(counts.reasons) == 7
    assert (2, 4) in counts.queues
    assert counts.queues[-1] == (0, 0)
    assert len(counts.answers) == 2
    assert all(waited >= 0 and ran >= 0 for waited, ran in counts.answers)
    await queue.close()


async def test_a_question_that_would_wait_too_long_is_refused_at_once_and_a_passage_is_not():
    now = 0.0
    device, counts = Device(free=False), Counts()
    queue = BatchQueue(device, name="the model", max_wait_s={"query": 1.0}, observer=counts, clock=lambda: now)
    first = await held(queue, device)
    now = 0.4  # 4 tokens: 10 a second
    device.gate.set()
    await first
    device.gate.clear()
    device.started.clear()
    running = await held(queue, device)
    waiting = asyncio.create_task(queue.submit(ticket("a"), ["12345", "678901"]))  # 1.1 s
    await settled(queue, 2)
    with pytest.raises(Overloaded):
        await queue.submit(ticket("a"), ["late"])
    assert counts.reasons == ["overloaded"]
    assert queue.waiting == 2
    other = asyncio.create_task(queue.submit(ticket("b"), ["soon"]))  # P39
    device.kind = "passage"
    passage = asyncio.create_task(queue.submit(ticket("a"), ["any time"]))
    await settled(queue, 4)
    device.gate.set()
    assert await waiting == ["12345", "678901"]
    assert [await other, await passage, await running] == [["SOON"], ["ANY TIME"], ["HELD"]]
    await queue.close()


async def test_a_device_that_fails_at_what_it_can_always_do_is_dead():
    """A text that no device can take is no sign of that: whoever sends it again and again restarts nobody."""
    device = Device()
    queue = BatchQueue(device, name="the model", known_good="good")
    for _ in range(3):
        with pytest.raises(Unavailable):
            await queue.submit(ticket(), ["bad"])
        queue.check()
    assert device.ran == [["bad"], ["good"]] * 3
    device.broken = True
    with pytest.raises(Unavailable):
        await queue.submit(ticket(), ["fine otherwise"])
    with pytest.raises(Unavailable):
        queue.check()
    device.broken = False
    assert await queue.submit(ticket(), ["fine"]) == ["FINE"]
    queue.check()
    await queue.close()


async def test_hundreds_of_callers_all_get_their_own_answer():
    queue = queue_of(Device(), max_items=5000)
    texts = [f"caller {i}" for i in range(400)]
    answers = await asyncio.gather(*(queue.submit(ticket(f"t{i % 7}"), [text]) for i, text in enumerate(texts)))
    assert answers == [[text.upper()] for text in texts]
    await queue.close()


@pytest.mark.model
async def test_the_real_model_behind_the_queue_gives_what_it_gives_directly(exact_encoder, sentences):
    queue = EncoderQueue(exact_encoder)
    texts, passages = sentences[:20], [Passage(s, context=sentences[0]) for s in sentences[20:30]]
    queries, encoded = await asyncio.gather(
        queue.queries(ticket("a", 60), texts), queue.passages(ticket("b", 60), passages)
    )
    assert all(isinstance(q, EncodedQuery) for q in queries)
    assert all(isinstance(p, EncodedPassage) for p in encoded)
    for ours, direct in zip(queries, exact_encoder.encode_queries(texts), strict=True):
        assert np.allclose(ours.pooled, direct.pooled, atol=1e-5)
    for ours, direct in zip(encoded, exact_encoder.encode_passages(passages), strict=True):
        assert np.allclose(ours.pooled, direct.pooled, atol=1e-5)
        assert ours.tokens.shape == direct.tokens.shape
    await queue.close()
