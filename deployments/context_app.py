"""The `context` application: the hot path. The ingress deployment is the assembler; storage I/O runs in its process.

Stores and routes are imported where a replica opens them: whoever only builds the application waits for none of that.
"""

from contextlib import AsyncExitStack

from fastapi import FastAPI
from ray import serve
from ray.serve import Application

from deployments.building import bounded, prepare_once
from deployments.settings import ContextArgs


@serve.deployment(
    ray_actor_options={"num_cpus": 0.3},
    **bounded(128),
)
@serve.ingress()
class ContextAssembler:
    """POST /v1/context. At most two handle calls a request: embed, rerank."""

    async def __init__(self, args: ContextArgs) -> None:
        self._args = args
        self._resources = AsyncExitStack()

    async def __serve_build_asgi_app__(self) -> FastAPI:
        from deployments.edge.apps import context_app
        from deployments.inference_client import EmbedderHandle
        from deployments.replica import open_services
        from deployments.telemetry.replica import Telemetry
        from deployments.warming import warm_up

        telemetry = Telemetry(self._args.telemetry, "ContextAssembler")
        self._resources.push_async_callback(telemetry.aclose)
        services = await self._resources.enter_async_context(
            open_services(
                self._args.stores,
                EmbedderHandle(self._args.inference_app),
                self._args.inference_app if self._args.rerank else None,
            )
        )
        app = context_app(self._args.stores.deadlines.request_s, names_request=False)  # Serve names it
        app.state.services = services
        await warm_up(services)
        return app

    async def __del__(self) -> None:
        await self._resources.aclose()

    def check_health(self) -> None:
        """That the loop runs this is the answer. No store is asked: an outage must not restart replicas (P40)."""


def app(args: ContextArgs) -> Application:
    prepare_once(args.stores)
    return ContextAssembler.bind(args)
