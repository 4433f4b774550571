"""The models as the other applications see them: typed calls with a deadline, over a Serve handle or in this process."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import grpc
from ray import serve
from ray.exceptions import RayActorError, RayTaskError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError

from deployments.telemetry.metrics import HANDLE_RETRIES, HANDLE_SECONDS
from deployments.telemetry.tracing import handing
from memory.calibration import ModelStatistics
from memory.encoding import EncodedPassage, EncodedQuery, ModelCard, Passage
from memory.errors import DeadlineExceeded, Overloaded, StrataError, Unavailable
from memory.ticket import Ticket

ABOUT_TIMEOUT_S = 10.0


class EmbeddingModel(Protocol):
    """Text to vectors. Overloaded, DeadlineExceeded or Unavailable("embedder") where that cannot be."""

    async def card(self) -> ModelCard: ...

    async def statistics(self) -> ModelStatistics: ...

    async def queries(self, ticket: Ticket, texts: Sequence[str]) -> list[EncodedQuery]: ...

    async def passages(self, ticket: Ticket, passages: Sequence[Passage]) -> list[EncodedPassage]: ...


class RerankingModel(Protocol):
    async def scores(self, ticket: Ticket, query: str, texts: Sequence[str]) -> list[float]:
        """A probability of relevance for each text."""


class _Lost(Exception):
    """The replica, or the connection to it, ended under a call. A model only computes: doing it again is safe."""


def _is_lost(error: Exception) -> bool:
    """By actor calls and over gRPC alike; Serve 2.60 tells a connection that broke before the replica answered by a RuntimeError."""
    nothing_came = type(error) is RuntimeError and str(error).startswith("Unexpected error (")
    return nothing_came or isinstance(error, (RayActorError, grpc.RpcError))


def _told(ticket: Ticket | None, left_s: float | None = None) -> tuple[Ticket, ...]:
    if ticket is None:
        return ()
    return (ticket if left_s is None else replace(ticket, timeout_s=left_s),)


class _Handle:
    """A deployment of another application. Its handle is looked up at the first call: applications start in any order."""

    def __init__(self, deployment: str, app: str, what: str) -> None:
        self._deployment, self._app, self._what = deployment, app, what
        self._observe = HANDLE_SECONDS.labels(deployment).observe
        self._retried = HANDLE_RETRIES.labels(deployment).inc
        self._handle: Any = None

    async def call(self, method: str, timeout_s: float, *args: object, ticket: Ticket | None = None) -> Any:
        """One call; once more, in what is left of the time, where the replica died under it. A `ticket` goes before `args` and says
        how much is left. Whoever is cancelled takes the work at the other end along."""
        started = time.perf_counter()
        try:
            async with asyncio.timeout(timeout_s):
                try:
                    return await self._once(method, *_told(ticket), *args)
                except _Lost:
                    self._retried()
                    left = timeout_s - (time.perf_counter() - started)
                    return await self._once(method, *_told(ticket, left), *args)
        except TimeoutError:
            raise DeadlineExceeded(self._what) from None
        except _Lost:
            raise Unavailable(self._what) from None
        finally:
            self._observe(time.perf_counter() - started)

    async def _once(self, method: str, *args: object) -> Any:
        try:
            if self._handle is None:
                self._handle = serve.get_deployment_handle(self._deployment, self._app)
            response = getattr(self._handle, method).remote(*args)
            try:
                return await response
            except asyncio.CancelledError:
                response.cancel()
                raise
        except BackPressureError as error:
            raise Overloaded(self._what, error.retry_after_s or 1.0) from None
        except RayTaskError as error:
            raise self._unwrap(error) from None
        except (DeploymentUnavailableError, KeyError):
            raise Unavailable(self._what) from None
        except Exception as error:
            if _is_lost(error):
                raise _Lost from None
            if type(error).__module__.startswith(("ray.", "grpc")):
                raise Unavailable(self._what) from None
            raise

    def _unwrap(self, error: RayTaskError) -> Exception:
        """Ray wraps an exception by default and not over gRPC: callers see ours either way."""
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, StrataError) and not isinstance(cause, RayTaskError):
                return cause
            cause = getattr(cause, "cause", None)
        return Unavailable(self._what)


class EmbedderHandle:
    def __init__(self, app: str) -> None:
        self._remote = _Handle("Embedder", app, "embedder")
        self._about: tuple[ModelCard, ModelStatistics] | None = None

    async def _known(self) -> tuple[ModelCard, ModelStatistics]:
        """Asked for once: a replica that started with one model never meets another."""
        if self._about is None:
            self._about = await self._remote.call("about", ABOUT_TIMEOUT_S)
        return self._about

    async def card(self) -> ModelCard:
        return (await self._known())[0]

    async def statistics(self) -> ModelStatistics:
        return (await self._known())[1]

    async def queries(self, ticket: Ticket, texts: Sequence[str]) -> list[EncodedQuery]:
        with handing(ticket, "embedder.queries", len(texts)) as sent:
            answer: list[EncodedQuery] = await self._remote.call("queries", sent.timeout_s, list(texts), ticket=sent)
        return answer

    async def passages(self, ticket: Ticket, passages: Sequence[Passage]) -> list[EncodedPassage]:
        with handing(ticket, "embedder.passages", len(passages)) as sent:
            answer: list[EncodedPassage] = await self._remote.call(
                "passages", sent.timeout_s, list(passages), ticket=sent
            )
        return answer


class RerankerHandle:
    def __init__(self, app: str) -> None:
        self._remote = _Handle("Reranker", app, "reranker")

    async def scores(self, ticket: Ticket, query: str, texts: Sequence[str]) -> list[float]:
        with handing(ticket, "reranker.scores", len(texts)) as sent:
            answer: list[float] = await self._remote.call("scores", sent.timeout_s, query, list(texts), ticket=sent)
        return answer
