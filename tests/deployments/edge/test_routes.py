"""Every route, and the credential that it demands. A route that is not in this table fails the test: say first who may call it."""

import pytest
from fastapi.routing import APIRoute

from deployments.edge.apps import context_app, memory_app
from deployments.edge.authenticate import Guard
from deployments.edge.routes import StrictRoute, guard_of
from memory.scope import Grant

OPEN = None
MEMBER = Guard(Grant.MEMORY)
ASKER = Guard(Grant.MEMORY, counts_itself=True)
KEY = Guard(Grant.MEMORY, key_only=True)
ADMIN_KEY = Guard(Grant.ADMIN, key_only=True)
MEMBER_OR_ADMIN = Guard(Grant.MEMORY, instead=Grant.ADMIN)

DEMANDS = {
    "POST /v1/sessions": KEY,
    "GET /v1/sessions": MEMBER,
    "GET /v1/sessions/{session_id}": MEMBER,
    "DELETE /v1/sessions/{session_id}": MEMBER,
    "POST /v1/sessions/{session_id}/turns": MEMBER,
    "GET /v1/sessions/{session_id}/turns": MEMBER,
    "PUT /v1/sessions/{session_id}/turns/{turn_id}": MEMBER,
    "DELETE /v1/sessions/{session_id}/turns/{turn_id}": MEMBER,
    "POST /v1/sessions/{session_id}/forget-last": MEMBER,
    "GET /v1/sessions/{session_id}/state": MEMBER,
    "PATCH /v1/sessions/{session_id}/state": MEMBER,
    "POST /v1/context": ASKER,
    "POST /v1/context/": ASKER,
    "POST /v1/memories": MEMBER,
    "GET /v1/memories": MEMBER,
    "DELETE /v1/memories": MEMBER,
    "POST /v1/memories/search": MEMBER,
    "GET /v1/memories/{memory_id}": MEMBER,
    "PATCH /v1/memories/{memory_id}": MEMBER,
    "DELETE /v1/memories/{memory_id}": MEMBER,
    "GET /v1/memories/{memory_id}/history": MEMBER,
    "DELETE /v1/users/{user_id}": ADMIN_KEY,
    "GET /v1/receipts/{receipt_id}": MEMBER_OR_ADMIN,
    "GET /v1/receipts/keys": OPEN,
    "GET /healthz": OPEN,
    "GET /readyz": OPEN,
    "GET /metrics": OPEN,
}
DOCUMENTATION = {"/openapi.json", "/docs", "/docs/oauth2-redirect"}


def routes():
    for app in (memory_app(), context_app()):
        for route in app.routes:
            if route.path not in DOCUMENTATION:
                yield route


def test_every_route_demands_what_the_table_says():
    found = {f"{method} {route.path}": guard_of(route) for route in routes() for method in route.methods}
    assert found == DEMANDS


def test_every_route_reads_strictly():
    assert all(isinstance(route, StrictRoute) for route in routes())


@pytest.mark.parametrize("call", sorted(call for call, demand in DEMANDS.items() if demand is not OPEN))
async def test_p20_without_a_credential_nothing_answers(world, call):
    method, path = call.split(" ")
    answer = await world.call(method, path.replace("{", "").replace("}", ""), "", content=b"not even json")
    assert (answer.status_code, answer.json()["type"]) == (401, "urn:strata:problem:unauthenticated")
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_key_without_the_grant_is_refused(world):
    key = await world.declare(f"{world.tenant}_x", [Grant.AUDIT])
    answer = await world.call("GET", "/v1/memories?user_id=alice", key)
    assert (answer.status_code, answer.json()["detail"]) == (403, "This credential lacks the scope `memory`.")


async def test_a_session_token_opens_no_session(world):
    token = (await world.open())["token"]
    answer = await world.call("POST", "/v1/sessions", token, json={"user_id": "alice"})
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:strata:problem:forbidden")


async def test_a_session_token_never_imports(world):
    token = (await world.open())["token"]
    answer = await world.call("POST", "/v1/memories", token, json={"memories": [{"content": "x"}], "mode": "verbatim"})
    assert (answer.status_code, answer.json()["detail"]) == (403, "This credential lacks the scope `import`.")


def test_openapi_describes_the_whole_interface():
    document = memory_app().openapi()
    described = {f"{method.upper()} {path}" for path, item in document["paths"].items() for method in item}
    assert described == {call for call in DEMANDS if call != "POST /v1/context/"}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            demand = DEMANDS[f"{method.upper()} {path}"]
            assert ("security" in operation) == (demand is not OPEN)
            assert "422" not in operation["responses"]
            assert operation["responses"]["default"]["content"].keys() == {"application/problem+json"}
    references = {part.split('"')[0] for part in str(document).replace("'", '"').split("#/components/schemas/")[1:]}
    assert references <= set(document["components"]["schemas"])


async def test_documentation_is_served(world):
    assert (await world.call("GET", "/openapi.json", "")).json()["openapi"].startswith("3.")
    docs = await world.call("GET", "/docs", "")
    assert docs.status_code == 200
    assert "content-security-policy" not in docs.headers


@pytest.mark.parametrize(
    "later",
    [
        "/v1/profile",
        "/v1/review",
        "/v1/audit",
        "/v1/quality",
        "/v1/pool/memories",
        "/v1/sessions/s1/close",
        "/v1/users/alice/export",
    ],
)
async def test_what_comes_later_is_not_there_yet(world, later):
    for method in ("GET", "POST"):
        answer = await world.call(method, later, json={} if method == "POST" else None)
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:strata:problem:unknown-route")


def test_routes_are_plain():
    assert all(isinstance(route, APIRoute) for route in routes())
