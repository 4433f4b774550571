"""Is it alive, is it ready, how is it doing: no credential, no user's data."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from deployments.edge.answers import answer
from deployments.edge.metrics import CONTENT_TYPE, exposition
from deployments.edge.routes import StrictRoute

router = APIRouter(route_class=StrictRoute, tags=["health"])

PROBE_S = 2.0
REQUIRED = ("sessions", "records")
"""Without these nothing can be answered or learnt; without the others answers are degraded and say so."""


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
        "index": services.index.ping,
        "embedder": services.embedder.card,
    }
    found = await asyncio.gather(*(_works(probe) for probe in probes.values()))
    stores = dict(zip(probes, found, strict=True))
    ready = all(stores[name] for name in REQUIRED)
    status = "unready" if not ready else "ok" if all(found) else "degraded"
    words = {name: "ok" if works else "away" for name, works in stores.items()}
    return answer({"status": status, "stores": words}, 200 if ready else 503)


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
