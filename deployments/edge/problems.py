"""Errors as problem documents (RFC 9457): a stable `type`, the field at fault and the fix, the request's id. Never a value that was
sent, never a server's own text, never a trace."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from deployments.edge.facts import facts_of
from deployments.edge.reading import safe_name
from memory.errors import Conflict, InvalidInput, OverBudget, Overloaded, StrataError, Unauthenticated

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:strata:problem:"
MAX_ERRORS = 20

TITLES = {
    "internal": "Internal error",
    "invalid-input": "A field is wrong",
    "malformed-body": "The request cannot be read",
    "too-large": "Too large",
    "unsupported-media-type": "Unsupported media type",
    "over-budget": "Over the token budget",
    "unauthenticated": "Not authenticated",
    "forbidden": "Not allowed",
    "not-found": "Not found",
    "unknown-route": "No such address",
    "method-not-allowed": "Method not allowed",
    "conflict": "Conflict",
    "idempotency-mismatch": "Idempotency-Key reused",
    "overloaded": "Too many requests",
    "unavailable": "Temporarily unavailable",
    "deadline-exceeded": "Deadline exceeded",
    "configuration": "Internal error",
}

ONE_ENTRY, MANY_ENTRIES = "one entry", "many entries"
_UNION_TAGS = {ONE_ENTRY, MANY_ENTRIES}
_SOURCES = {"body", "query", "path", "header"}
_OVERSIZE = {"string_too_long", "text_too_large"}


class Problem(Response):
    media_type = MEDIA_TYPE

    def __init__(
        self,
        request_id: str,
        status: int,
        slug: str,
        detail: str,
        extra: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        document = {
            "type": TYPE_PREFIX + slug,
            "title": TITLES.get(slug, "Error"),
            "status": status,
            "detail": detail,
            **(extra or {}),
            "request_id": request_id,
        }
        super().__init__(orjson.dumps(document), status, dict(headers or {}), MEDIA_TYPE)


def problem_of(error: StrataError, request_id: str) -> Problem:
    """The one place where an error of the family becomes an answer."""
    extra: dict[str, Any] = {}
    headers: dict[str, str] = {}
    detail = error.detail
    match error:
        case InvalidInput():
            extra["field"] = error.field
        case OverBudget():
            extra |= {"field": "budget_tokens", "over": error.over, "budget": error.budget}
        case Overloaded():
            headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
        case Conflict() if error.version is not None:
            extra["version"] = error.version
        case Unauthenticated():
            headers["WWW-Authenticate"] = "Bearer"
        case _:
            pass
    if error.status == 503:
        headers["Retry-After"] = "1"
    if error.slug == "idempotency-mismatch":
        extra["field"] = "Idempotency-Key"
    if error.status == 500:
        return internal_problem(request_id)
    return Problem(request_id, error.status, error.slug, detail, extra, headers)


def internal_problem(request_id: str) -> Problem:
    return Problem(
        request_id, 500, "internal", "Something went wrong on our side; the request id finds it in our logs."
    )


_FIXES = {
    "missing": "is required",
    "string_type": "must be a text",
    "string_unicode": "must be well-formed Unicode",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing_size": "must be a smaller whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "union_tag_not_found": "must be an object",
    "enum": "must be one of {expected}",
    "literal_error": "must be one of {expected}",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "string_pattern_mismatch": "is not of the accepted form",
    "too_long": "must have at most {max_length} items",
    "too_short": "must have at least {min_length} items",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "extra_forbidden": "unknown field; remove it",
}


def _field_and_fix(error: Mapping[str, Any]) -> tuple[str, str]:
    """Path and fix of one pydantic error. Only our own sentences and our own limits: what was sent is never repeated."""
    location = [part for part in error.get("loc", ()) if part not in _UNION_TAGS]
    if location and location[0] in _SOURCES:
        location = location[1:]
    context = error.get("ctx") or {}
    location += str(context["at"]).split(".") if "at" in context else []
    field = ".".join(map(safe_name, location)) or "body"
    if "fix" in context:
        return field, str(context["fix"])
    template = _FIXES.get(str(error.get("type")), "is not accepted here")
    return field, template.format_map(context)


def validation_problem(errors: Sequence[Mapping[str, Any]], request_id: str) -> Problem:
    """All wrong fields, the first of them in `detail` and `field`. One text over its limit alone is a 413."""
    found = [_field_and_fix(error) for error in errors[:MAX_ERRORS]]
    field, fix = found[0]
    too_large = all(error.get("type") in _OVERSIZE for error in errors)
    return Problem(
        request_id,
        413 if too_large else 422,
        "too-large" if too_large else "invalid-input",
        f"{field}: {fix}",
        {"field": field, "errors": [{"field": each, "fix": why} for each, why in found]},
    )


def allowed_methods(app: FastAPI, path: str) -> list[str]:
    """Every method that some route takes at `path`."""
    return sorted(
        {
            method
            for route in app.routes
            if (pattern := getattr(route, "path_regex", None)) is not None and pattern.match(path)
            for method in getattr(route, "methods", None) or ()
            if method != "HEAD"
        }
    )


def install(app: FastAPI) -> None:
    """Make every error that a route can raise a problem document."""

    async def strata(request: Request, error: Exception) -> Response:
        assert isinstance(error, StrataError)
        return problem_of(error, facts_of(request.scope).request_id)

    async def validation(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return validation_problem(error.errors(), facts_of(request.scope).request_id)

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        request_id = facts_of(request.scope).request_id
        if error.status_code == 405:
            methods = allowed_methods(app, request.scope["path"])
            return Problem(
                request_id,
                405,
                "method-not-allowed",
                f"This address takes {_listed(methods)}.",
                headers={"Allow": ", ".join(methods)},
            )
        if error.status_code == 404:
            return Problem(
                request_id, 404, "unknown-route", "There is nothing at this address; /openapi.json lists what there is."
            )
        return Problem(request_id, error.status_code, "malformed-body", "The request cannot be read.")

    app.add_exception_handler(StrataError, strata)
    app.add_exception_handler(RequestValidationError, validation)
    app.add_exception_handler(HTTPException, http)


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words) or "no method"
