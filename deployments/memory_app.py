"""The `memory` application: every other route, and the workers that keep the index equal to SQL and carry out erasures."""

import asyncio
import os
import uuid
from contextlib import AsyncExitStack
from typing import Any

from fastapi import FastAPI
from ray import serve
from ray.serve import Application
from ray.serve.handle import DeploymentHandle

from deployments.building import DRAIN_S, bounded, prepare_once
from deployments.settings import CuratorSettings, MemoryArgs, StoreSettings, TelemetrySettings


@serve.deployment(
    ray_actor_options={"num_cpus": 0.3},
    **bounded(128),
)
@serve.ingress()
class MemoryApi:
    """Sessions, turns, state, memories, search, health."""

    async def __init__(self, args: MemoryArgs, curator: DeploymentHandle[Any]) -> None:
        self._args, self._curator = args, curator
        self._resources = AsyncExitStack()

    async def __serve_build_asgi_app__(self) -> FastAPI:
        from deployments.edge.apps import memory_app
        from deployments.inference_client import EmbedderHandle
        from deployments.replica import open_services
        from deployments.telemetry.replica import Telemetry
        from deployments.warming import warm_up

        telemetry = Telemetry(self._args.telemetry, "MemoryApi")
        self._resources.push_async_callback(telemetry.aclose)
        services = await self._resources.enter_async_context(
            open_services(self._args.stores, EmbedderHandle(self._args.inference_app))
        )
        services.wake_curator = self._wake
        app = memory_app(self._args.stores.deadlines.request_s, names_request=False)  # Serve names it
        app.state.services = services
        await warm_up(services)
        return app

    def _wake(self) -> None:
        """Tell the Curator that there is work; nobody waits for the answer, and a lost call is made good by its poll."""
        self._curator.wake.remote()

    async def __del__(self) -> None:
        await self._resources.aclose()

    def check_health(self) -> None:
        """That the loop runs this is the answer. No store is asked: an outage must not restart replicas (P40)."""


@serve.deployment(
    name="Curator",
    ray_actor_options={"num_cpus": 0.1},
    max_ongoing_requests=64,
    max_queued_requests=64,  # a wake-up that is dropped is made good by the poll
    graceful_shutdown_timeout_s=DRAIN_S,
    health_check_period_s=5,
    health_check_timeout_s=10,
)
class CuratorDeployment:
    """Runs the Curator, the Sweeper and the Eraser in the background of its replica."""

    async def __init__(
        self, stores: StoreSettings, settings: CuratorSettings, inference_app: str, telemetry: TelemetrySettings
    ) -> None:
        from deployments.curation.workers import Workers
        from deployments.inference_client import EmbedderHandle
        from deployments.replica import open_services
        from deployments.telemetry.replica import Telemetry

        self._resources = AsyncExitStack()
        self._resources.push_async_callback(Telemetry(telemetry, "Curator").aclose)
        services = await self._resources.enter_async_context(open_services(stores, EmbedderHandle(inference_app)))
        self._workers = Workers(f"{os.getpid()}-{uuid.uuid4().hex[:8]}", services, settings)
        self._task = asyncio.create_task(self._workers.run())

    async def wake(self) -> None:
        self._workers.wake()

    def check_health(self) -> None:
        """A worker that ended is a worker to restart."""
        if self._task.done():
            raise RuntimeError("the workers' loops have ended")

    async def __del__(self) -> None:
        self._task.cancel()
        await self._resources.aclose()


def app(args: MemoryArgs) -> Application:
    prepare_once(args.stores)
    return MemoryApi.bind(args, CuratorDeployment.bind(args.stores, args.curator, args.inference_app, args.telemetry))
