"""Is it alive, is it ready, how is it doing: no credential, no user's data."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from deployments.edge.answers import answer
from deployments.edge.routes import StrictRoute
from deployments.telemetry.exposition import CONTENT_TYPE, exposition
from storage.index.blind import BlindIndex

router = APIRouter(route_class=StrictRoute, tags=["health"])

PROBE_S = 2.0
REQUIRED = ("sessions", "records")
"""Without these nothing can be answered or learnt; without the others answers are degraded and say so."""
INDEX_S = 5.0
"""How long one look at the index serves all who ask: its health is a write of its own, and anybody may ask."""


@router.get("/healthz")
async def healthz() -> Response:
    """The loop turns. No store is asked: an outage of one must not restart replicas (P40)."""
    return answer({"status": "ok"})


@router.get("/readyz")
async def readyz(request: Request) -> Response:
    """Each store by name. 503 while one is away that no answer can do without."""
    services = getattr(request.app.state, "services", None)
    if services is None:
        return answer({"status": "starting", "stores": {}}, 503)
    probes: dict[str, Callable[[], Awaitable[Any]]] = {
        "sessions": services.sessions.ping,
        "records": services.records.ping,
        "embedder": services.embedder.card,
    }
    index = _look_at_index(request.app.state, services.index)
    found = await asyncio.gather(index.works(), *(_works(probe) for probe in probes.values()))
    stores = dict(zip(("index", *probes), found, strict=True))
    ready = all(stores[name] for name in REQUIRED)
    status = "unready" if not ready else "ok" if all(found) else "degraded"
    words = {name: "ok" if works else "away" for name, works in stores.items()}
    return answer({"status": status, "stores": words}, 200 if ready else 503)


class Look:
    """Whether something works, for all who ask within `keep_s` of the last look; one look at a time."""

    def __init__(self, probe: Callable[[], Awaitable[Any]], keep_s: float) -> None:
        self.probe, self._keep_s = probe, keep_s
        self._one = asyncio.Lock()
        self._until, self._worked = 0.0, False

    async def works(self) -> bool:
        async with self._one:
            if time.monotonic() >= self._until:
                self._worked = await _works(self.probe)
                self._until = time.monotonic() + self._keep_s
            return self._worked


def _look_at_index(state: Any, index: BlindIndex) -> Look:
    look: Look | None = getattr(state, "index_look", None)
    if look is None or look.probe != index.ping:
        look = state.index_look = Look(index.ping, INDEX_S)
    return look


async def _works(probe: Callable[[], Awaitable[Any]]) -> bool:
    try:
        async with asyncio.timeout(PROBE_S):
            await probe()
    except Exception:
        return False
    return True


@router.get("/metrics")
async def metrics() -> Response:
    return Response(await asyncio.to_thread(exposition), media_type=CONTENT_TYPE)
