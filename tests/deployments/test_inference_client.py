"""A call to a model: one bounded retry where the replica died under it, our own errors in place of Ray's, nothing done for nobody."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayTaskError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError, RequestCancelledError

from deployments.inference_client import _Handle
from memory.errors import DeadlineExceeded, Overloaded, StrataError, Unavailable
from memory.ids import TenantId
from memory.ticket import Ticket

TICKET = Ticket(TenantId("shop"), 30.0)
Script = list[Exception | Callable[[], Awaitable[Any]]]


class Response:
    def __init__(self, outcome: Any) -> None:
        self._outcome, self.cancelled = outcome, False

    def __await__(self):
        return self._answer().__await__()

    async def _answer(self) -> Any:
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return await self._outcome()

    def cancel(self) -> None:
        self.cancelled = True


class Remote:
    """In place of Serve's handle: answers by a script. The real one is killed in tests/serving."""

    def __init__(self, script: Script) -> None:
        self._script, self.sent, self.responses = list(script), [], []

    @property
    def queries(self) -> "Remote":
        return self

    def remote(self, *args: Any) -> Response:
        self.sent.append(args)
        self.responses.append(Response(self._script.pop(0)))
        return self.responses[-1]


def calling(*script: Exception | Callable[[], Awaitable[Any]]) -> tuple[_Handle, Remote]:
    handle, remote = _Handle("Embedder", "inference", "embedder"), Remote(list(script))
    handle._handle = remote
    return handle, remote


async def vectors() -> str:
    return "vectors"


async def never() -> None:
    await asyncio.Event().wait()


def gone(code: grpc.StatusCode) -> Exception:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata())


DIED = [
    ActorDiedError(),
    ActorUnavailableError("is unavailable", b"0" * 16),
    gone(grpc.StatusCode.UNAVAILABLE),
    gone(grpc.StatusCode.CANCELLED),
    gone(grpc.StatusCode.INTERNAL),
    RuntimeError("Unexpected error (StatusCode.UNAVAILABLE): Socket closed."),
]


@pytest.mark.parametrize("death", DIED, ids=lambda error: type(error).__name__)
async def test_a_replica_that_dies_under_a_call_is_made_good_once(death):
    handle, remote = calling(death, vectors)
    assert await handle.call("queries", 30.0, ["q"], ticket=TICKET) == "vectors"
    (first, texts), (second, again) = remote.sent
    assert texts == again == ["q"]
    assert first == TICKET
    assert 0 < second.timeout_s < first.timeout_s  # the second has what the first left
    assert (second.tenant_id, second.trace) == (first.tenant_id, first.trace)


@pytest.mark.parametrize("death", DIED, ids=lambda error: type(error).__name__)
async def test_a_second_death_is_told_and_not_tried_again(death):
    handle, remote = calling(death, death, vectors)
    with pytest.raises(Unavailable) as told:
        await handle.call("queries", 30.0, ["q"], ticket=TICKET)
    assert told.value.what == "embedder"
    assert len(remote.sent) == 2


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (BackPressureError(9, 8, 429, 3.0), Overloaded),
        (Overloaded("the embedding model", 2.0), Overloaded),
        (RayTaskError("queries", "", Overloaded("the embedding model", 2.0)).as_instanceof_cause(), Overloaded),
        (RayTaskError("queries", "", ValueError("a user's words")).as_instanceof_cause(), Unavailable),
        (DeploymentUnavailableError("x"), Unavailable),
        (RequestCancelledError("id"), Unavailable),
        (KeyError("x"), Unavailable),
    ],
)
async def test_what_is_no_death_is_not_tried_again(raised: Exception, told: type[StrataError]):
    handle, remote = calling(raised, vectors)
    with pytest.raises(told) as error:
        await handle.call("queries", 30.0, ["q"], ticket=TICKET)
    assert len(remote.sent) == 1
    assert "words" not in str(error.value) + error.value.detail
    assert type(error.value) is told


async def test_backpressure_says_when_to_come_back():
    handle, _ = calling(BackPressureError(9, 8, 429, 3.0), BackPressureError(9, 8))
    for seconds in (3.0, 1.0):
        with pytest.raises(Overloaded) as told:
            await handle.call("queries", 30.0, ["q"], ticket=TICKET)
        assert told.value.retry_after_s == seconds


async def test_the_deadline_ends_the_work_at_the_other_end():
    handle, remote = calling(never)
    with pytest.raises(DeadlineExceeded):
        await handle.call("queries", 0.05, ["q"], ticket=TICKET)
    assert remote.responses[0].cancelled


async def test_a_caller_that_goes_takes_the_work_along():
    awaited = asyncio.Event()

    async def waiting() -> None:
        awaited.set()
        await never()

    handle, remote = calling(waiting)
    call = asyncio.create_task(handle.call("queries", 30.0, ["q"], ticket=TICKET))
    await awaited.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert remote.responses[0].cancelled
