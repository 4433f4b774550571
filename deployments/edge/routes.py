"""The route class of every call: credential first, then the query, then the body, then the flow."""

from collections.abc import Awaitable, Callable
from typing import Any, get_args, get_origin

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from deployments.edge.authenticate import Guard
from deployments.edge.facts import facts_of
from deployments.edge.reading import check_query, read_json
from memory.errors import Overloaded


class _ReadRequest(Request):
    """A request whose body has been read and checked."""

    def __init__(self, request: Request, raw: bytes, document: Any) -> None:
        super().__init__(request.scope, request.receive)
        self._raw, self._document = raw, document

    async def body(self) -> bytes:
        return self._raw

    async def json(self) -> Any:
        return self._document


def guard_of(route: APIRoute) -> Guard | None:
    """What the route demands; None: it is open."""
    guards = [each.call for each in _all(route.dependant) if isinstance(each.call, Guard)]
    if len(guards) > 1:
        raise ValueError(f"{route.path}: two guards")
    return guards[0] if guards else None


def _all(dependant: Dependant) -> list[Dependant]:
    return [dependant, *(each for inner in dependant.dependencies for each in _all(inner))]


def _repeatable(annotation: Any) -> bool:
    """A list, or a list or nothing."""
    return any(get_origin(each) is list for each in (annotation, *get_args(annotation)))


def query_names(route: APIRoute) -> dict[str, bool]:
    """Query parameters of a route: name -> may be given more than once."""
    names: dict[str, bool] = {}
    for dependant in _all(route.dependant):
        for parameter in dependant.query_params:
            annotation = parameter.field_info.annotation
            if isinstance(annotation, type) and issubclass(annotation, BaseModel):
                for name, field in annotation.model_fields.items():
                    names[field.alias or name] = _repeatable(field.annotation)
            else:
                names[parameter.alias] = _repeatable(annotation)
    return names


class StrictRoute(APIRoute):
    """Refuses whatever the call does not name, and reads nothing of a body before the credential is good."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        inner = super().get_route_handler()
        guard, names, has_body = guard_of(self), query_names(self), self.body_field is not None

        async def handle(request: Request) -> Response:
            if guard is not None:
                await guard(request)
            refused = False
            try:
                check_query(request.scope["query_string"], names)
                raw, document = await read_json(request, expected=has_body)
                facts_of(request.scope).body = raw
                return await inner(_ReadRequest(request, raw, document))
            except Overloaded:
                refused = True
                raise
            finally:
                if guard is not None and guard.counts_itself:
                    await guard.settle(request, refused)

        return handle
