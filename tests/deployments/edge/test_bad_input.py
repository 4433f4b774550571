"""Bad input, call by call over the whole edge: a 4xx that names the field and the fix, in a problem document, and nothing is stored."""

import json

import pytest

TURNS = "/v1/sessions/s1/turns"
JSON = {"Content-Type": "application/json"}


def one(content):
    return json.dumps({"turns": [{"role": "user", "content": content}]}).encode()


def turns(**fields):
    return json.dumps(
        {"turns": [{"role": "user", "content": "a"}, {"role": "user", "content": "b", **fields}]}
    ).encode()


BODIES = [
    ("empty", b"", 400, "body", "is empty"),
    ("empty text", one(""), 422, "turns.0.content", "must not be empty"),
    ("1 MB", one("x" * 1_000_000), 413, "turns.0.content", "at most 100000 characters"),
    ("over 4 MiB", one("x" * (4 * 1024 * 1024)), 413, "body", "at most 4194304 bytes"),
    ("control character", one("a\x1bb"), 400, "turns.0.content", "control character U+001B"),
    ("raw control character", b'{"turns": [{"role": "user", "content": "a\x01"}]}', 400, "body", "unescaped control"),
    ("NUL", one("a\x00b"), 400, "turns.0.content", "NUL U+0000"),
    ("lone surrogate", one("a\ud83d"), 400, "turns.0.content", "lone surrogate U+D83D"),
    ("invalid UTF-8", b'{"turns": [{"role": "user", "content": "\xff"}]}', 400, "body", "not UTF-8"),
    ("UTF-16", one("你好").decode().encode("utf-16"), 400, "body", "not UTF-8"),
    ("GB18030", '{"turns": [{"role": "user", "content": "你好"}]}'.encode("gb18030"), 400, "body", "not UTF-8"),
    ("not JSON", b"turns=hello", 400, "body", "not valid JSON"),
    ("a list", b"[]", 422, "body", "must be an object"),
    ("unknown role", turns(role="robot"), 422, "turns.1.role", "must be one of"),
    ("unknown field", turns(contnet="x"), 422, "turns.1.contnet", "did you mean `content`?"),
    ("wrong type", turns(content=5), 422, "turns.1.content", "must be a text or a list of parts"),
    ("id with spaces", turns(id="a b"), 422, "turns.1.id", "A-Z a-z 0-9"),
    ("time without offset", turns(at="2026-03-02T09:30:00"), 422, "turns.1.at", "with its offset"),
    ("tool without its call", turns(role="tool"), 422, "turns.1.tool_call_id", "is required"),
    (
        "10,000 turns",
        json.dumps({"turns": [{"role": "user", "content": "a"}] * 10_000}).encode(),
        422,
        "turns",
        "at most",
    ),
    (
        "over the tenant's quota",
        json.dumps({"turns": [{"role": "user", "content": "a"}] * 1001}).encode(),
        422,
        "turns",
        "at most 1000",
    ),
    ("deep", b'{"turns": ' + b"[" * 5000 + b"]" * 5000 + b"}", 400, "body", "nested deeper"),
    ("a key twice", b'{"turns": [], "turns": [{"role": "user", "content": "a"}]}', 400, "turns", "occurs twice"),
    ("NaN", b'{"turns": NaN}', 400, "body", "NaN"),
]


def refusal(answer, status, field, says):
    document = answer.json()
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert (document["status"], document["field"]) == (status, field)
    assert says in document["detail"]
    assert document["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize(
    ("body", "status", "field", "says"), [case[1:] for case in BODIES], ids=[case[0] for case in BODIES]
)
async def test_bad_bodies_store_nothing(world, body, status, field, says):
    token = (await world.open(session="s1"))["token"]
    answer = await world.call("POST", TURNS, token, content=body, headers=JSON)
    refusal(answer, status, field, says)
    assert (await world.call("GET", TURNS, token)).json()["items"] == []


async def test_a_byte_order_mark_is_accepted(world):
    token = (await world.open(session="s1"))["token"]
    body = b"\xef\xbb\xbf" + json.dumps({"turns": [{"role": "user", "content": "你好"}]}, ensure_ascii=False).encode()
    assert (await world.call("POST", TURNS, token, content=body, headers=JSON)).status_code == 200
    assert (await world.call("GET", TURNS, token)).json()["items"][0]["content"] == "你好"


async def test_a_body_that_is_streamed_beyond_the_limit(world):
    token = (await world.open(session="s1"))["token"]
    sent = 0

    async def endless():
        nonlocal sent
        while True:
            sent += 65_536
            yield b"x" * 65_536

    answer = await world.call("POST", TURNS, token, content=endless(), headers=JSON)
    refusal(answer, 413, "body", "at most")
    assert sent < 8 * 1024 * 1024  # it was not read on


@pytest.mark.parametrize(
    ("headers", "field"),
    [
        ({}, "Content-Type"),
        ({"Content-Type": "text/plain"}, "Content-Type"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, "Content-Type"),
        ({"Content-Type": "application/json; charset=gb18030"}, "Content-Type"),
        ({"Content-Type": "application/json", "Content-Encoding": "gzip"}, "Content-Encoding"),
    ],
)
async def test_other_media_types(world, headers, field):
    token = (await world.open(session="s1"))["token"]
    refusal(await world.call("POST", TURNS, token, content=one("a"), headers=headers), 415, field, "")


CALLS = [
    ("GET", "/v1/sessions/a%20b", None, 422, "session_id"),
    ("GET", "/v1/sessions/s1%0A", None, 422, "session_id"),
    ("GET", "/v1/sessions/s1%00", None, 422, "session_id"),
    ("GET", "/v1/sessions/%2573%31", None, 422, "session_id"),  # decoded once: `%731`
    ("GET", "/v1/sessions/%E5%8C%97%E4%BA%AC", None, 422, "session_id"),
    ("GET", "/v1/sessions/" + "a" * 65, None, 422, "session_id"),
    ("DELETE", TURNS + "/a%20b", None, 422, "turn_id"),
    ("GET", "/v1/memories/a%2Eb?user_id=alice", None, 422, "memory_id"),
    ("GET", TURNS + "?limit=0", None, 422, "limit"),
    ("GET", TURNS + "?limit=1001", None, 422, "limit"),
    ("GET", TURNS + "?limit=ten", None, 422, "limit"),
    ("GET", TURNS + "?limit=", None, 422, "limit"),
    ("GET", TURNS + "?cursor=x", None, 422, "cursor"),
    ("GET", TURNS + "?limt=5", None, 422, "limt"),
    ("GET", TURNS + "?user_id=alice", None, 422, "user_id"),
    ("GET", "/v1/memories?user_id=alice&user_id=bob", None, 422, "user_id"),
    ("GET", "/v1/memories?user_id=alice&kind=gossip", None, 422, "kind.0"),
    ("GET", "/v1/memories?user_id=alice&status=dead", None, 422, "status"),
    ("GET", "/v1/memories?user_id=alice&min_confidence=nan", None, 422, "min_confidence"),
    ("GET", "/v1/memories?user_id=alice&min_confidence=2", None, 422, "min_confidence"),
    ("GET", "/v1/memories?user_id=alice&since=2026-01-01T00:00:00", None, 422, "since"),
    ("GET", "/v1/memories?user_id=alice&since=2026-01-01T00:00:00+08:00", None, 422, "since"),  # + is a space here
    ("POST", "/v1/sessions", {"user_id": "alice smith"}, 422, "user_id"),
    ("POST", "/v1/sessions", {"user_id": "alice", "session": "x"}, 422, "session"),
    ("POST", "/v1/context", {"session_id": "s1", "query": "x", "budget_tokens": 0}, 422, "budget_tokens"),
    ("POST", "/v1/context", {"session_id": "s1", "query": "x", "budget_tokens": -1}, 422, "budget_tokens"),
    ("POST", "/v1/context", {"session_id": "s1", "query": "x", "budget_tokens": 1}, 422, "budget_tokens"),
    ("POST", "/v1/context", {"session_id": "s1", "query": ""}, 422, "query"),
    ("POST", "/v1/context", {"session_id": "s1"}, 422, "query"),  # and no user turn to answer
    ("POST", "/v1/memories/search", {"user_id": "alice", "query": "x", "k": 0}, 422, "k"),
    ("POST", "/v1/memories", {"user_id": "alice", "content": ""}, 422, "content"),
    ("DELETE", "/v1/memories", {"user_id": "alice", "confirm": "ALL"}, 422, "confirm"),
    ("DELETE", "/v1/memories", None, 400, "body"),
    ("PATCH", "/v1/sessions/s1/state", {"version": 0}, 422, "body"),
    ("POST", "/v1/sessions/s1/forget-last", {"turn": "t1"}, 400, "body"),
]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "field"), CALLS, ids=[f"{m} {p[:60]} {b or ''}" for m, p, b, _, _ in CALLS]
)
async def test_bad_calls(world, method, path, body, status, field):
    await world.open(session="s1")
    refusal(await world.call(method, path, **({} if body is None else {"json": body})), status, field, "")


async def test_a_slash_in_an_id_is_no_id(world):
    answer = await world.call("GET", "/v1/sessions/a%2Fb")
    assert answer.status_code == 404


async def test_a_proper_time_in_a_query(world):
    answer = await world.call(
        "GET", "/v1/memories?user_id=alice&since=2026-01-01T00:00:00%2B08:00&kind=fact&kind=lesson"
    )
    assert answer.status_code == 200
