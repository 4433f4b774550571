"""The OpenAPI document: the routes as FastAPI describes them, with our credentials and our problem documents."""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from deployments.edge.problems import MEDIA_TYPE
from deployments.edge.routes import guard_of

PROBLEM = {
    "type": "object",
    "description": "RFC 9457.",
    "required": ["type", "title", "status", "detail", "request_id"],
    "properties": {
        "type": {"type": "string", "description": "Stable: urn:strata:problem:<slug>."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "field": {"type": "string", "description": "Path of the field at fault, such as turns.3.content."},
        "errors": {
            "type": "array",
            "items": {"type": "object", "properties": {"field": {"type": "string"}, "fix": {"type": "string"}}},
        },
        "version": {"type": "integer", "description": "With a 409 on state: the current version."},
        "request_id": {"type": "string"},
    },
}
IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
    "description": "Holds for 24 hours for this tenant and user: the same body gets the same answer, and nothing is done twice.",
}
WRITES = {"POST", "PUT", "PATCH", "DELETE"}
READS_BY_POST = {"/v1/memories/search", "/v1/context"}


def described(app: FastAPI, routes: Sequence[BaseRoute]) -> dict[str, Any]:
    """Made once, then kept on the app."""
    if app.openapi_schema:
        return app.openapi_schema
    schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=routes)
    components = schema.setdefault("components", {})
    components.setdefault("schemas", {})["Problem"] = PROBLEM
    for unused in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(unused, None)
    components["securitySchemes"] = {
        "tenantKey": {"type": "http", "scheme": "bearer", "description": "A tenant key, sk_…"},
        "sessionToken": {"type": "http", "scheme": "bearer", "description": "A session token, st_…"},
    }
    for route in routes:
        if not isinstance(route, APIRoute) or not route.include_in_schema:
            continue
        for method in route.methods or ():
            _describe(route, method, schema["paths"][route.path][method.lower()])
    app.openapi_schema = schema
    return schema


def _describe(route: APIRoute, method: str, operation: dict[str, Any]) -> None:
    operation["responses"].pop("422", None)
    operation["responses"]["default"] = {
        "description": "A problem document.",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    guard = guard_of(route)
    if guard is None:
        return
    operation["security"] = [{"tenantKey": []}] if guard.key_only else [{"tenantKey": []}, {"sessionToken": []}]
    if method in WRITES and route.path not in READS_BY_POST:
        operation.setdefault("parameters", []).append(IDEMPOTENCY_KEY)
