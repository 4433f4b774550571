"""The two HTTP applications. `app.state.services` is set by whoever opened them; until then calls answer 503."""

from typing import Any

from fastapi import APIRouter, FastAPI

from deployments.edge import problems
from deployments.edge.middleware import Edge
from deployments.edge.openapi import described
from deployments.edge.routers import context, erasing, health, memories, sessions, state, turns
from deployments.version import VERSION

DESCRIPTION = "The memory of other people's assistants: what the model needs to know now, within a token budget."
DEFAULT_TIMEOUT_S = 15.0


def memory_app(timeout_s: float = DEFAULT_TIMEOUT_S, *, names_request: bool = True) -> FastAPI:
    """Every call but the context call. `timeout_s` bounds each request."""
    routers = [sessions, turns, state, memories, erasing, health]
    app = _app([each.router for each in routers], timeout_s, "", names_request)
    # One document for the whole interface, served where `/` is.
    everything = [*app.routes, *context.router.routes]
    app.openapi = lambda: described(app, everything)  # type: ignore[method-assign]
    return app


def whole_app(timeout_s: float = DEFAULT_TIMEOUT_S, *, names_request: bool = True) -> FastAPI:
    """Every call in one application: the fused topology."""
    app = memory_app(timeout_s, names_request=names_request)
    app.router.routes.extend(context.router.routes)
    return app


def context_app(timeout_s: float = DEFAULT_TIMEOUT_S, *, names_request: bool = True) -> FastAPI:
    """The context call alone, to be mounted at /v1/context; answers there with and without a mount, never by a redirect."""
    return _app([context.router], timeout_s, context.CONTEXT, names_request, documented=False)


def _app(
    routers: list[APIRouter], timeout_s: float, prefix: str, names_request: bool, documented: bool = True
) -> FastAPI:
    urls: dict[str, Any] = {} if documented else {"openapi_url": None}
    app = FastAPI(
        title="Strata",
        version=VERSION,
        description=DESCRIPTION,
        redoc_url=None,
        redirect_slashes=False,
        **urls,
    )
    for router in routers:
        # Their paths are whole, and a route stands in the table as it was declared.
        app.router.routes.extend(router.routes)
    problems.install(app)
    app.add_middleware(Edge, timeout_s=timeout_s, prefix=prefix, names_request=names_request)
    return app
