"""Around every request, as plain ASGI: its id, its deadline, headers, one log line, metrics, and the last word on errors."""

import asyncio
import time
import traceback

import structlog
from opentelemetry.trace import Span
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deployments.edge.facts import CURRENT, KEY, Facts, accepted_request_id
from deployments.edge.problems import internal_problem, problem_of
from deployments.telemetry import tracing
from deployments.telemetry.metrics import IN_FLIGHT, known_method, observe
from memory.errors import DeadlineExceeded

log = structlog.get_logger("strata.access")

CONTROL_HEADERS = frozenset(
    {b"x-request-timeout-seconds", b"x-request-disconnect-disabled", b"x-session-id", b"serve_multiplexed_model_id"}
)
"""Headers by which a client could steer Ray Serve. Nothing behind the edge sees them."""

SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
DOCS = "/docs"
UNTRACED = frozenset({"/healthz", "/readyz", "/metrics"})
"""Asked for all day by machines; a trace of each would bury the others."""
WRITE_GRACE_S = 1.0
"""How much longer than a write the request around it may take, so that the write's own deadline speaks first."""
CLIENT_LEFT = 499


class Edge:
    """`prefix` is where Serve mounts the application: Serve leaves the full path in place and names its prefix in `root_path`; our
    routes are declared with their full path, so that they answer alike behind Serve and without it.

    `names_request`: answer X-Request-ID. Serve's own server appends that header itself, and two are one too many.
    """

    def __init__(self, app: ASGIApp, timeout_s: float, prefix: str = "", names_request: bool = True) -> None:
        self._app, self._timeout_s, self._prefix, self._names_request = app, timeout_s, prefix, names_request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        facts = Facts(accepted_request_id(headers.get("x-request-id")))
        facts.deadline = asyncio.get_running_loop().time() + self._timeout_s
        inner, before = self._inner(scope, facts), CURRENT.set(facts)
        IN_FLIGHT.inc()
        try:
            if inner["path"] in UNTRACED or not tracing.tracing():
                await self._answer(inner, receive, send, facts, None)
            else:
                parent, method = headers.get("traceparent"), known_method(scope["method"])
                with tracing.request(parent, facts.request_id, method) as span:
                    await self._answer(inner, receive, send, facts, span)
        finally:
            IN_FLIGHT.dec()
            CURRENT.reset(before)

    async def _answer(self, inner: Scope, receive: Receive, send: Send, facts: Facts, span: Span | None) -> None:
        status = 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self._add_headers(MutableHeaders(scope=message), facts, inner["path"])
            await send(message)

        try:
            async with asyncio.timeout_at(facts.deadline + WRITE_GRACE_S) as waiting:
                await self._app(inner, receive, answer)
        except asyncio.CancelledError:
            status = status or CLIENT_LEFT
            raise
        except ClientDisconnect:
            status = status or CLIENT_LEFT
        except Exception as error:
            if isinstance(error, TimeoutError) and waiting.expired():
                problem = problem_of(DeadlineExceeded("The call"), facts.request_id)
            else:
                problem = internal_problem(facts.request_id)
                _log_failure(error, facts)
            if status:
                raise  # the answer has begun: only breaking it off is left
            await problem(inner, receive, answer)
        finally:
            self._record(inner, facts, status or 500, span)

    def _inner(self, scope: Scope, facts: Facts) -> Scope:
        outer = scope.get("root_path", "").removesuffix(self._prefix)
        return {
            **scope,
            "root_path": "",
            "path": scope["path"].removeprefix(outer) or "/",
            "headers": [pair for pair in scope["headers"] if pair[0].lower() not in CONTROL_HEADERS],
            KEY: facts,
        }

    def _add_headers(self, headers: MutableHeaders, facts: Facts, path: str) -> None:
        if self._names_request:
            headers["X-Request-ID"] = facts.request_id
        for name, value in SECURITY_HEADERS.items():
            if not (path.startswith(DOCS) and name == "Content-Security-Policy"):
                headers.setdefault(name, value)

    def _record(self, scope: Scope, facts: Facts, status: int, span: Span | None) -> None:
        seconds = time.perf_counter() - facts.started
        route, method = getattr(scope.get("route"), "path", "unmatched"), known_method(scope["method"])
        observe(route, method, status, facts.tenant_id, seconds)
        if span is not None:
            tracing.answered(span, method, route, status, facts.tenant_id)
        log.info(
            "request",
            method=method,
            route=route,
            status=status,
            ms=round(seconds * 1000, 2),
            tenant=facts.tenant_id,
            request_id=facts.request_id,
        )


def _log_failure(error: Exception, facts: Facts) -> None:
    """Kind and place of an unforeseen error. Its message may hold a user's words and is left out."""
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    log.error(
        "unhandled",
        kind=type(error).__name__,
        at=[f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames],
        request_id=facts.request_id,
    )
