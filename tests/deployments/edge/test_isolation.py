"""Nobody reaches what is another's: not by naming it, not by spelling, not by a foreign credential. All answers look alike."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from deployments.edge.credentials import SessionClaims, sign_token
from memory.ids import SessionId, TenantId, UserId
from memory.scope import Grant
from tests.deployments.edge.world import FOREIGN_TOKENS, TOKENS

SESSION_CALLS = [
    ("GET", "", None),
    ("DELETE", "", None),
    ("GET", "/turns", None),
    ("POST", "/turns", {"turns": [{"role": "user", "content": "x"}]}),
    ("PUT", "/turns/t1", {"role": "user", "content": "x"}),
    ("DELETE", "/turns/t1", None),
    ("POST", "/forget-last", None),
    ("GET", "/state", None),
    ("PATCH", "/state", {"intent": "x"}),
]


@pytest.mark.parametrize(("method", "rest", "body"), SESSION_CALLS)
async def test_p23_a_foreign_session_is_one_that_does_not_exist(world, method, rest, body):
    await world.open("alice", "s1")
    bob = (await world.open("bob", "s2"))["token"]
    alice_again = (await world.open("alice", "s3"))["token"]
    stranger = await world.declare(f"{world.tenant}_x")
    options = {} if body is None else {"json": body}
    answers = [
        await world.call(method, "/v1/sessions/s1" + rest, bob, **options),
        await world.call(method, "/v1/sessions/s1" + rest, alice_again, **options),  # her own, but not this token's
        await world.call(method, "/v1/sessions/s1" + rest, stranger, **options),
        await world.call(method, "/v1/sessions/nowhere" + rest, world.key, **options),
    ]
    for answer in answers:
        document = answer.json()
        del document["request_id"]
        assert (answer.status_code, document["detail"]) == (404, "No such session.")
    assert (await world.call("GET", "/v1/sessions/s1")).json()["turn_count"] == 0


@pytest.mark.parametrize(("field", "value"), [("session_id", "s1"), ("user_id", "alice")])
async def test_p20_the_context_call_names_no_other(world, field, value):
    await world.open("alice", "s1")
    bob = (await world.open("bob", "s2"))["token"]
    answer = await world.call("POST", "/v1/context", bob, json={"query": "x", field: value})
    assert answer.status_code == 404
    both = await world.call("POST", "/v1/context", json={"query": "x", "session_id": "s1", "user_id": "bob"})
    assert both.status_code == 404


async def test_p20_memories_of_another_user_or_tenant(world):
    key = await world.declare(f"{world.tenant}_i", [Grant.MEMORY, Grant.IMPORT])
    body = {"user_id": "alice", "memories": [{"content": "Lives in Berlin"}], "mode": "verbatim"}
    memory = (await world.call("POST", "/v1/memories", key, json=body)).json()["items"][0]["id"]
    bob = (await world.open("bob", "s2", key))["token"]
    for credential, user in ((bob, ""), (key, "?user_id=bob"), (world.key, "?user_id=alice")):
        for method, path in (("GET", ""), ("GET", "/history"), ("DELETE", "")):
            answer = await world.call(method, f"/v1/memories/{memory}{path}{user}", credential)
            assert (answer.status_code, answer.json()["detail"]) == (404, "No such memory.")
    for credential, named in ((bob, {}), (key, {"user_id": "bob"}), (world.key, {"user_id": "alice"})):
        answer = await world.call("PATCH", f"/v1/memories/{memory}", credential, json={"importance": 0.1, **named})
        assert answer.status_code == 404
    for method, path, options in (
        ("GET", "/v1/memories?user_id=alice", {}),
        ("POST", "/v1/memories/search", {"json": {"query": "Berlin", "user_id": "alice"}}),
        ("POST", "/v1/memories", {"json": {"content": "I like tea.", "user_id": "alice"}}),
        ("DELETE", "/v1/memories", {"json": {"confirm": "all", "user_id": "alice"}}),
        ("GET", "/v1/sessions?user_id=alice", {}),
    ):
        answer = await world.call(method, path, bob, **options)
        assert (answer.status_code, answer.json()["detail"]) == (404, "No such user.")
    assert (await world.call("GET", f"/v1/memories/{memory}?user_id=alice", key)).status_code == 200


async def test_p19_delete_all_takes_one_user_only(world):
    key = await world.declare(f"{world.tenant}_i", [Grant.MEMORY, Grant.IMPORT])
    for user in ("user1", "user11", "User1", "user-1"):
        body = {"user_id": user, "memories": [{"content": "Lives in Berlin"}], "mode": "verbatim"}
        await world.call("POST", "/v1/memories", key, json=body)
    await world.call("DELETE", "/v1/memories", key, json={"confirm": "all", "user_id": "user1"})
    left = [
        len((await world.call("GET", f"/v1/memories?user_id={user}", key)).json()["items"])
        for user in ("user1", "user11", "User1", "user-1")
    ]
    assert left == [0, 1, 1, 1]


@pytest.mark.parametrize("spelling", ["Alice", "ALICE"])
async def test_p24_case_makes_another_user(world, spelling):
    await world.open("alice", "s1")
    assert (await world.call("GET", f"/v1/sessions?user_id={spelling}")).json()["items"] == []


@pytest.mark.parametrize(
    "spelling",
    ["alice%20", "%20alice", "alice%40x", "alice%00", "%EF%BD%81lice", "al%E2%80%8Bice", "alice%2F", "%2561lice", ""],
)
async def test_p24_other_spellings_are_refused(world, spelling):
    await world.open("alice", "s1")
    answer = await world.call("GET", f"/v1/sessions?user_id={spelling}")
    assert answer.status_code in (400, 422)
    assert answer.json()["field"] == "user_id"


async def test_p22_a_tenant_key_must_name_its_user(world):
    for method, path, options in (
        ("GET", "/v1/memories", {}),
        ("GET", "/v1/sessions", {}),
        ("POST", "/v1/memories", {"json": {"content": "I like tea."}}),
        ("POST", "/v1/memories/search", {"json": {"query": "tea"}}),
        ("DELETE", "/v1/memories", {"json": {"confirm": "all"}}),
    ):
        answer = await world.call(method, path, **options)
        assert (answer.status_code, answer.json()["field"]) == (422, "user_id")


async def test_tokens_that_were_not_signed_here_or_have_expired(world):
    now = datetime.now(UTC)
    claims = SessionClaims(TenantId(world.tenant), UserId("alice"), SessionId("s1"), now + timedelta(hours=1))
    await world.open("alice", "s1")
    expired = sign_token(replace(claims, expires_at=now - timedelta(minutes=1)), TOKENS, now)
    for token in (
        sign_token(claims, FOREIGN_TOKENS, now),
        expired,
        sign_token(claims, TOKENS, now) + "x",
        "st_",
        "sk_x",
    ):
        answer = await world.call("GET", "/v1/sessions/s1", token)
        assert (answer.status_code, answer.json()["type"]) == (401, "urn:strata:problem:unauthenticated")
    good = sign_token(claims, TOKENS, now)
    assert (await world.call("GET", "/v1/sessions/s1", good)).status_code == 200


async def test_two_authorization_headers_are_one_too_many(world):
    headers = [("Authorization", f"Bearer {world.key}"), ("Authorization", "Bearer sk_other")]
    answer = await world.call("GET", "/v1/memories?user_id=alice", "", headers=dict(headers[:1]))
    assert answer.status_code == 200
    async with httpx.AsyncClient(transport=httpx.ASGITransport(world.memory), base_url="http://edge") as http:
        doubled = await http.get("/v1/memories?user_id=alice", headers=headers)
    assert doubled.status_code == 401


async def test_a_tenants_rate_is_its_own(world):
    slow = await world.declare(f"{world.tenant}_slow", policy={"quotas": {"requests_per_minute": 2}})
    answers = [await world.call("GET", "/v1/memories?user_id=alice", slow) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert int(answers[2].headers["retry-after"]) >= 1
    assert answers[2].json()["type"] == "urn:strata:problem:overloaded"
    assert (await world.call("GET", "/v1/memories?user_id=alice")).status_code == 200


async def test_p21_requests_at_once_keep_to_their_tenants(world):
    other = await world.declare(f"{world.tenant}_x")
    tokens = {}
    for key in (world.key, other):
        for user in ("alice", "bob"):
            tokens[key, user] = (await world.open(user, f"s-{user}", key))["token"]

    async def say(key, user, number):
        content = f"{key[-6:]} {user} {number}"
        body = {"turns": [{"role": "user", "content": content}], "memory": "off"}
        await world.call("POST", f"/v1/sessions/s-{user}/turns", tokens[key, user], json=body)

    await asyncio.gather(*(say(key, user, number) for number in range(10) for key, user in tokens))
    for (key, user), token in tokens.items():
        turns = (await world.call("GET", f"/v1/sessions/s-{user}/turns", token)).json()["items"]
        assert {turn["content"] for turn in turns} == {f"{key[-6:]} {user} {number}" for number in range(10)}
        assert len(turns) == 10
