"""Writes: run to their end, and with an Idempotency-Key once only, whatever becomes of the connection (P34, P36).

A write that has begun is not broken off when its client goes away: it would be half done. It runs in a task of its own, bounded by
the request's deadline. With a key, the first caller claims it, and the answer is kept for 24 hours under the tenant and user; the ids
of what is made derive from the key and the body, so that even a run repeated after a crash makes nothing twice.
"""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import orjson
import structlog
from starlette.requests import Request
from starlette.responses import Response

from deployments.edge.caller import Caller
from deployments.edge.facts import facts_of
from deployments.telemetry.metrics import CacheCount
from memory.errors import DeadlineExceeded, InvalidInput, StrataError
from memory.ids import derived_id, time_ordered_id

log = structlog.get_logger(__name__)

T = TypeVar("T")

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
LEASE_MARGIN_S = 10.0
_KEY = re.compile(r"[\x21-\x7e]{1,200}", re.ASCII)

_count = CacheCount("idempotency")
_running: set[asyncio.Task[Any]] = set()


def idempotency_key(request: Request) -> str | None:
    """The request's key, if it has one. InvalidInput where it is malformed or given twice."""
    given = request.headers.getlist(HEADER)
    if not given:
        return None
    if len(given) > 1 or not _KEY.fullmatch(given[0]):
        raise InvalidInput(HEADER, "send one, of 1 to 200 printable ASCII characters without spaces")
    return given[0]


def digest_of(request: Request) -> str:
    """Of method, address and body: what makes two requests the same."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (request.method.encode(), request.url.path.encode(), request.scope["query_string"]):
        digest.update(len(part).to_bytes(8, "big") + part)
    digest.update(facts_of(request.scope).body)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Ids:
    """Ids for what a request makes. With a `seed` the same ones each time, so that a retry finds its own traces."""

    now: datetime
    entropy: Callable[[int], bytes]
    seed: tuple[str, ...] = ()

    def make(self, prefix: str, place: int = 0) -> str:
        if self.seed:
            return derived_id(prefix, *self.seed, str(place))
        return time_ordered_id(prefix, self.now, self.entropy(10))


@dataclass(frozen=True, slots=True)
class Outcome:
    """A write's answer as stored: `body` is JSON."""

    status: int
    body: bytes
    replayed: bool = False

    def response(self) -> Response:
        headers = {REPLAYED: "true"} if self.replayed else None
        return Response(self.body or None, self.status, headers, "application/json" if self.body else None)


Work = Callable[[Ids], Awaitable[Any]]
"""Does the write; answers what `orjson` can write, or None for an answer without a body."""


async def perform(request: Request, services: Any, caller: Caller, work: Work, status: int = 200) -> Outcome:
    """Runs `work` once, or answers again what it answered. Keys are the user's own where `caller` is narrowed to one, else the
    tenant's.

    Raises what `work` raises; then nothing is kept, and the key may be used again.
    """
    key = idempotency_key(request)
    facts = facts_of(request.scope)
    now = services.clock()
    if key is None:
        return Outcome(status, await _to_its_end(lambda: _run(work, Ids(now, services.entropy)), facts.deadline))
    scope, digest = caller.scope, digest_of(request)
    lease_s = max(0.0, facts.deadline - asyncio.get_running_loop().time()) + LEASE_MARGIN_S
    claim = await services.idempotency.claim(scope, key, digest, lease_s)
    _count(claim.state == "done")
    if claim.state == "done":
        return Outcome(claim.status, claim.body, replayed=True)
    ids = Ids(now, services.entropy, (scope.tenant_id, scope.user_id or "", key, digest))

    async def once() -> bytes:
        try:
            body = await _run(work, ids)
        except BaseException:
            await _quietly(services.idempotency.release(scope, key, digest))
            raise
        await _quietly(services.idempotency.finish(scope, key, digest, status, body))
        return body

    return Outcome(status, await _to_its_end(once, facts.deadline))


async def _run(work: Work, ids: Ids) -> bytes:
    answer = await work(ids)
    return b"" if answer is None else orjson.dumps(answer)


async def _quietly(change: Awaitable[None]) -> None:
    """The claim's end. Where it fails, its lease runs out instead; the write itself has been decided."""
    try:
        await change
    except StrataError as error:
        log.warning("idempotency_claim_left", kind=error.slug)


async def _to_its_end(work: Callable[[], Awaitable[T]], deadline: float) -> T:
    """`work` in a task that outlives its caller's cancellation, but not `deadline`."""

    async def bounded() -> T:
        try:
            async with asyncio.timeout_at(deadline) as waiting:
                return await work()
        except TimeoutError:
            if waiting.expired():
                raise DeadlineExceeded("The write") from None
            raise

    task = asyncio.create_task(bounded())
    _running.add(task)
    task.add_done_callback(_ended)
    return await asyncio.shield(task)


def _ended(task: asyncio.Task[Any]) -> None:
    _running.discard(task)
    if not task.cancelled():
        task.exception()  # seen: whoever waited has it, and nobody else is left to tell
