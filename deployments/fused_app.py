"""Everything in one process, for one small machine: encoder, both HTTP applications and the workers. The same flows, edge and queue as
in the three applications; only the hop to the Embedder is missing."""

import asyncio
import os
import uuid
from contextlib import AsyncExitStack

from fastapi import FastAPI
from ray import serve
from ray.serve import Application

from deployments.building import bounded, prepare_once
from deployments.settings import FusedArgs


@serve.deployment(
    ray_actor_options={"num_cpus": 1},
    **bounded(128),
)
@serve.ingress()
class Strata:
    """Every route. More than one replica works, but each carries a model: then the three applications are the better shape."""

    async def __init__(self, args: FusedArgs) -> None:
        self._args = args
        self._resources = AsyncExitStack()

    async def __serve_build_asgi_app__(self) -> FastAPI:
        from deployments.curation.workers import Workers
        from deployments.edge.apps import whole_app
        from deployments.in_process import InProcessEmbedder
        from deployments.replica import open_services
        from deployments.telemetry.replica import Telemetry
        from deployments.warming import warm_up

        self._resources.push_async_callback(Telemetry(self._args.telemetry, "Strata").aclose)
        self._embedder = await InProcessEmbedder.load(self._args.embedder)
        self._resources.push_async_callback(self._embedder.close)
        services = await self._resources.enter_async_context(open_services(self._args.stores, self._embedder))
        workers = Workers(f"{os.getpid()}-{uuid.uuid4().hex[:8]}", services, self._args.curator)
        self._working = asyncio.create_task(workers.run())
        app = whole_app(self._args.stores.deadlines.request_s, names_request=False)  # Serve names it
        app.state.services = services
        await warm_up(services)
        return app

    async def __del__(self) -> None:
        self._working.cancel()
        await self._resources.aclose()

    def check_health(self) -> None:
        """The model's device and the workers; no store is asked (P40)."""
        self._embedder.check()
        if self._working.done():
            raise RuntimeError("the workers' loops have ended")


def app(args: FusedArgs) -> Application:
    prepare_once(args.stores)
    return Strata.bind(args)
