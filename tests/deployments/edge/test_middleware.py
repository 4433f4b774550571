"""Around every request: ids, deadlines, headers, logs, metrics, and errors that say nothing of what went wrong inside."""

import asyncio
import re

import httpx
import pytest
import structlog
from fastapi import APIRouter, FastAPI, Request
from starlette.responses import Response

from deployments.edge import problems
from deployments.edge.facts import facts_of
from deployments.edge.middleware import Edge
from deployments.edge.routes import StrictRoute
from deployments.telemetry.exposition import exposition
from memory.errors import Conflict, NotFound, OverBudget, Overloaded, Unauthenticated, Unavailable

FAILURES = {
    "conflict": Conflict("Somebody was first.", 7),
    "overloaded": Overloaded("requests per minute", 2.2),
    "unavailable": Unavailable("sessions"),
    "unauthenticated": Unauthenticated("No."),
    "not-found": NotFound("memory"),
    "over-budget": OverBudget(12, 100),
}
router = APIRouter(route_class=StrictRoute)


@router.get("/seen/{name}")
async def seen(name: str, request: Request) -> Response:
    headers = ",".join(sorted(request.headers))
    return Response(f"{facts_of(request.scope).request_id} {name} {headers}")


@router.get("/fails/{slug}")
async def fails(slug: str) -> Response:
    raise FAILURES[slug]


@router.get("/breaks")
async def breaks() -> Response:
    raise RuntimeError("a user's secret words")


@router.get("/hangs")
async def hangs() -> Response:
    await asyncio.sleep(60)
    return Response()


def made(timeout_s: float = 5.0, **options) -> FastAPI:
    app = FastAPI(redirect_slashes=False)
    app.router.routes.extend(router.routes)
    problems.install(app)
    app.add_middleware(Edge, timeout_s=timeout_s, **options)
    return app


def client(app, **options) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app, **options), base_url="http://edge")


async def get(path: str, app=None, **options) -> httpx.Response:
    async with client(app or made()) as http:
        return await http.get(path, **options)


async def test_a_well_formed_request_id_is_kept():
    answer = await get("/seen/x", headers={"X-Request-ID": "trace-0123456789"})
    assert answer.headers["x-request-id"] == "trace-0123456789"
    assert answer.text.startswith("trace-0123456789 ")


@pytest.mark.parametrize("given", [None, "short", "a" * 129, "with space 0123", "línea-0123456"])
async def test_otherwise_one_is_made(given):
    headers = {} if given is None else {"X-Request-ID": given.encode("latin-1")}
    answer = await get("/seen/x", headers=headers)
    assert re.fullmatch(r"req_[0-9a-f]{32}", answer.headers["x-request-id"])


async def test_headers_that_steer_serve_are_stripped():
    answer = await get(
        "/seen/x",
        headers={
            "X-Request-Timeout-Seconds": "-1",
            "X-Request-Disconnect-Disabled": "true",
            "X-Session-Id": "abc",
            "serve_multiplexed_model_id": "m",
            "X-Kept": "1",
        },
    )
    names = answer.text.split(" ")[2].split(",")
    assert "x-kept" in names
    assert not {
        "x-request-timeout-seconds",
        "x-request-disconnect-disabled",
        "x-session-id",
        "serve_multiplexed_model_id",
    } & set(names)


async def test_security_headers():
    answer = await get("/seen/x")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("slug", "status", "extra", "header"),
    [
        ("conflict", 409, {"version": 7}, None),
        ("overloaded", 429, {}, ("retry-after", "3")),
        ("unavailable", 503, {}, ("retry-after", "1")),
        ("unauthenticated", 401, {}, ("www-authenticate", "Bearer")),
        ("not-found", 404, {}, None),
        ("over-budget", 422, {"field": "budget_tokens", "over": 12, "budget": 100}, None),
    ],
)
async def test_each_error_has_its_problem_document(slug, status, extra, header):
    answer = await get(f"/fails/{slug}")
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert document["type"] == f"urn:strata:problem:{slug}"
    assert document["status"] == status
    assert document["request_id"] == answer.headers["x-request-id"]
    assert document["title"] and document["detail"] == FAILURES[slug].detail
    assert {name: document[name] for name in extra} == extra
    if header:
        assert answer.headers[header[0]] == header[1]


async def test_an_unforeseen_error_tells_nothing():
    with structlog.testing.capture_logs() as lines:
        answer = await get("/breaks")
    assert answer.status_code == 500
    assert answer.json()["type"] == "urn:strata:problem:internal"
    assert "secret" not in answer.text + repr(lines)
    assert any(line["event"] == "unhandled" and line["kind"] == "RuntimeError" for line in lines)


async def test_unknown_addresses_and_methods():
    nowhere = await get("/nowhere")
    assert (nowhere.status_code, nowhere.json()["type"]) == (404, "urn:strata:problem:unknown-route")
    async with client(made()) as http:
        wrong = await http.delete("/seen/x")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET")
    assert wrong.json()["type"] == "urn:strata:problem:method-not-allowed"
    slashed = await get("/seen/x/")  # never a redirect, which would lose a body
    assert slashed.status_code == 404


async def test_unknown_query_parameters_are_refused_where_there_are_none():
    answer = await get("/seen/x?user_id=bob")
    assert (answer.status_code, answer.json()["field"]) == (422, "user_id")


async def test_a_request_has_a_deadline(monkeypatch):
    monkeypatch.setattr("deployments.edge.middleware.WRITE_GRACE_S", 0.0)
    answer = await get("/hangs", made(timeout_s=0.05))
    assert (answer.status_code, answer.json()["type"]) == (504, "urn:strata:problem:deadline-exceeded")


async def test_a_client_that_leaves_ends_the_work():
    task = asyncio.create_task(get("/hangs"))
    await asyncio.sleep(0.05)
    with structlog.testing.capture_logs() as lines:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [line["status"] for line in lines if line["event"] == "request"] == [499]


async def test_one_log_line_without_ids_or_content():
    with structlog.testing.capture_logs() as lines:
        await get("/seen/alice?x=1")
        await get("/seen/alice")
    last = lines[-1]
    assert last["event"] == "request"
    assert {"method", "route", "status", "ms", "tenant", "request_id"} <= set(last)
    assert (last["method"], last["route"], last["status"], last["tenant"]) == ("GET", "/seen/{name}", 200, "-")
    assert "alice" not in repr(lines)


async def test_metrics_have_bounded_labels():
    for name in ("alice", "bob"):
        await get(f"/seen/{name}")
    await get("/nowhere/at/all")
    async with client(made()) as http:
        await http.request("BREW", "/seen/x")
    text = exposition().decode()
    assert 'route="/seen/{name}",status="2xx"' in text
    assert 'route="unmatched",status="4xx"' in text
    assert 'method="other"' in text
    assert "alice" not in text and "nowhere" not in text and "BREW" not in text


@pytest.mark.parametrize(
    ("root_path", "path"),
    [("", "/seen/x"), ("/seen", "/seen/x"), ("/api", "/api/seen/x"), ("/api/seen", "/api/seen/x")],
)
async def test_routes_answer_wherever_serve_mounts_them(root_path, path):
    app = made(prefix="/seen")
    async with client(app, root_path=root_path) as http:
        assert (await http.get(path)).status_code == 200


async def test_serves_own_server_names_the_request():
    assert "x-request-id" not in (await get("/seen/x", made(names_request=False))).headers


async def test_a_body_where_none_belongs():
    async with client(made()) as http:
        refused = await http.request("GET", "/seen/x", json={"user_id": "bob"})
        taken = await http.request("GET", "/seen/x", json={})
    assert (refused.status_code, refused.json()["field"]) == (400, "body")
    assert taken.status_code == 200
