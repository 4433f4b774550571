"""A worker's loop: whatever a step does, the loop goes on, and its log says nothing of anybody's."""

import asyncio

import pytest
import structlog

from deployments.curation.loop import Loop, all_of
from memory.errors import Unavailable

SECRET = "芒果 mango"


@pytest.mark.parametrize(
    ("failure", "event", "kind"),
    [
        (Unavailable("index"), "worker_step_failed", "unavailable"),
        (ValueError(SECRET), "worker_step_broke", "ValueError"),  # a mistake of ours ends no loop either
    ],
)
async def test_a_step_that_fails_is_logged_by_its_kind_alone_and_tried_again(failure, event, kind):
    steps, done = 0, asyncio.Event()

    async def step() -> bool:
        nonlocal steps
        steps += 1
        if steps < 3:
            raise failure
        done.set()
        return False

    with structlog.testing.capture_logs() as logs:
        task = asyncio.create_task(Loop("tester", step, 0.001).run())
        async with asyncio.timeout(30):
            await done.wait()
        task.cancel()
    assert [(log["event"], log["worker"], log["kind"]) for log in logs] == [(event, "tester", kind)] * 2
    assert SECRET not in str(logs)


async def test_a_wake_up_ends_the_rest_and_full_steps_take_none():
    work, taken, asleep = 3, 0, asyncio.Event()

    async def step() -> bool:
        nonlocal work, taken
        if work:
            work -= 1
            taken += 1
        if not work:
            asleep.set()
        return work > 0

    loop = Loop("tester", step, 3600)
    task = asyncio.create_task(loop.run())
    async with asyncio.timeout(30):
        await asleep.wait()
        assert taken == 3
        asleep.clear()
        work = 1
        loop.wake()
        await asleep.wait()
    assert taken == 4
    task.cancel()


async def test_all_are_brought_to_their_end_before_the_first_failure_is_raised():
    ended = []

    async def work(name: str, failure: Exception | None = None) -> None:
        await asyncio.sleep(0)
        if failure is not None:
            raise failure
        await asyncio.sleep(0.01)
        ended.append(name)

    with pytest.raises(Unavailable):
        await all_of([work("a"), work("b", Unavailable("index")), work("c")])
    assert ended == ["a", "c"]
