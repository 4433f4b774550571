"""Each call once, over real stores: what it takes, what it answers, in the shapes that the OpenAPI document promises."""

import asyncio
from datetime import datetime

from deployments.edge.bodies import context as context_bodies
from deployments.edge.bodies import memories as memory_bodies
from deployments.edge.bodies import receipts as receipt_bodies
from deployments.edge.bodies import sessions as session_bodies
from memory.scope import Grant


def checked(answer, model, status=200):
    """The answer, which has exactly the shape that is documented."""
    assert answer.status_code == status, answer.text
    model.model_validate_json(answer.content)
    return answer.json()


def said(content, role="user", **fields):
    return {"role": role, "content": content, **fields}


async def test_a_session_from_open_to_drop(world):
    body = {"user_id": "alice", "time_zone": "Asia/Shanghai", "language": "zh-CN", "metadata": {"channel": "web"}}
    opened = checked(await world.call("POST", "/v1/sessions", json=body), session_bodies.OpenedSession, 201)
    path = f"/v1/sessions/{opened['session_id']}"
    assert opened["token"].startswith("st_")
    assert datetime.fromisoformat(opened["expires_at"]).utcoffset().total_seconds() == 8 * 3600  # in the user's zone

    for credential in (world.key, opened["token"]):
        session = checked(await world.call("GET", path, credential), session_bodies.SessionAnswer)
        assert (session["user_id"], session["metadata"], session["turn_count"]) == ("alice", {"channel": "web"}, 0)
    listed = checked(await world.call("GET", "/v1/sessions?user_id=alice"), session_bodies.SessionPage)
    assert [each["session_id"] for each in listed["items"]] == [opened["session_id"]]

    assert (await world.call("DELETE", path, opened["token"])).status_code == 204
    assert (await world.call("GET", path)).status_code == 404
    assert (await world.call("DELETE", path)).status_code == 404


async def test_a_session_id_of_ones_own(world):
    first = await world.open(session="mine")
    again = await world.open(session="mine")
    assert first["session_id"] == again["session_id"] == "mine"
    answer = await world.call("POST", "/v1/sessions", json={"user_id": "bob", "session_id": "mine"})
    assert answer.status_code == 409  # alice's: a key, which may know of both, is told to choose another


async def test_sessions_page_by_page(world):
    for number in range(3):
        await world.open(session=f"s{number}")
    first = (await world.call("GET", "/v1/sessions?user_id=alice&limit=2")).json()
    second = (
        await world.call("GET", "/v1/sessions", params={"user_id": "alice", "limit": 2, "cursor": first["next_cursor"]})
    ).json()
    assert [each["session_id"] for each in first["items"] + second["items"]] == ["s2", "s1", "s0"]
    assert second["next_cursor"] is None
    stolen = await world.call("GET", "/v1/sessions", params={"user_id": "bob", "cursor": first["next_cursor"]})
    assert (stolen.status_code, stolen.json()["field"]) == (422, "cursor")


async def test_turns_are_appended_in_order_and_listed(world):
    opened = await world.open(session="s1", time_zone="Asia/Shanghai")
    path, token = "/v1/sessions/s1/turns", opened["token"]
    calls = [{"id": "call_1", "type": "function", "function": {"name": "find", "arguments": "{}"}}]
    turns = [
        said("请帮我查一下订单。", at="2026-03-02T09:30:00+08:00"),
        said(None, "assistant", tool_calls=calls),
        said("[]", "tool", tool_call_id="call_1", name="find"),
        said(
            [{"type": "text", "text": "No orders"}, {"type": "image_url", "image_url": {}}], "assistant", complete=False
        ),
    ]
    stored = checked(await world.call("POST", path, token, json={"turns": turns}), session_bodies.AppendedTurns)
    assert [turn["seq"] for turn in stored["turns"]] == [1, 2, 3, 4]

    listed = checked(await world.call("GET", path, token), session_bodies.TurnPage)["items"]
    assert [turn["content"] for turn in listed] == ["请帮我查一下订单。", "", "[]", "No orders\n[image]"]
    assert listed[0]["at"] == "2026-03-02T09:30:00+08:00"
    assert listed[1]["tool_calls"] == calls
    assert (listed[2]["tool_call_id"], listed[2]["name"]) == ("call_1", "find")
    assert [turn["complete"] for turn in listed] == [True, True, True, False]
    first = (await world.call("GET", path + "?limit=3", token)).json()
    rest = (await world.call("GET", path, token, params={"cursor": first["next_cursor"]})).json()
    assert [turn["seq"] for turn in first["items"] + rest["items"]] == [1, 2, 3, 4]


async def test_p31_a_turn_is_replaced_and_taken_back(world):
    token = (await world.open(session="s1"))["token"]
    path = "/v1/sessions/s1/turns"
    turns = [
        said("one", id="a"),
        said("two", "assistant", id="b"),
        said("three", id="c"),
        said("four", "assistant", id="d"),
    ]
    await world.call("POST", path, token, json={"turns": turns})

    changed = checked(await world.call("PUT", path + "/c", token, json=said("drei")), session_bodies.ChangedTurn)
    assert (changed["turn"]["id"], changed["turn"]["seq"], changed["turn"]["content"]) == ("c", 3, "drei")
    assert "d" in changed["removed"]
    gone = checked(await world.call("POST", "/v1/sessions/s1/forget-last", token), session_bodies.ChangedTurn)
    assert (gone["turn"], gone["removed"]) == (None, ["c"])
    gone = checked(await world.call("DELETE", path + "/a", token), session_bodies.ChangedTurn)
    assert gone["removed"] == ["a"]
    assert [turn["id"] for turn in (await world.call("GET", path, token)).json()["items"]] == ["b"]
    for answer in (
        await world.call("DELETE", path + "/a", token),
        await world.call("PUT", path + "/zzz", token, json=said("x")),
        await world.call("POST", "/v1/sessions/s1/forget-last", token),
    ):
        assert (answer.status_code, answer.json()["detail"]) == (404, "No such turn.")


async def test_state_by_merge_patches(world):
    token = (await world.open(session="s1"))["token"]
    path = "/v1/sessions/s1/state"
    empty = checked(await world.call("GET", path, token), session_bodies.StateAnswer)
    assert empty == {"version": 0, "intent": None, "slots": {}, "missing": [], "results": {}}
    await world.call(
        "PATCH", path, token, json={"intent": "book", "slots": {"city": "北京", "day": "Mon"}, "missing": ["time"]}
    )
    merge = {"Content-Type": "application/merge-patch+json"}
    body = b'{"slots": {"day": null, "time": "9:00"}, "missing": [], "version": 1}'
    state = checked(await world.call("PATCH", path, token, content=body, headers=merge), session_bodies.StateAnswer)
    assert state == {
        "version": 2,
        "intent": "book",
        "slots": {"city": "北京", "time": "9:00"},
        "missing": [],
        "results": {},
    }
    late = await world.call("PATCH", path, token, json={"intent": "cancel", "version": 1})
    assert (late.status_code, late.json()["version"]) == (409, 2)


async def test_memories_from_write_to_deletion(world):
    token = (await world.open(session="s1"))["token"]
    entry = {
        "content": "I am allergic to peanuts.",
        "kind": "constraint",
        "importance": 0.9,
        "metadata": {"from": "form"},
    }
    written = checked(await world.call("POST", "/v1/memories", token, json=entry), memory_bodies.WrittenMemories)
    assert written["items"][0]["verdict"] == "stored"
    path = f"/v1/memories/{written['items'][0]['id']}"

    memory = checked(await world.call("GET", path, token), memory_bodies.MemoryAnswer)
    assert (memory["user_id"], memory["kind"], memory["status"], memory["version"]) == (
        "alice",
        "constraint",
        "active",
        1,
    )
    listed = checked(
        await world.call("GET", "/v1/memories?user_id=alice&kind=constraint&status=active"), memory_bodies.MemoryPage
    )
    assert [each["id"] for each in listed["items"]] == [memory["id"]]
    assert (await world.call("GET", "/v1/memories?kind=fact", token)).json()["items"] == []

    corrected = await world.call(
        "PATCH", path, token, json={"content": "I am allergic to all nuts.", "importance": 1.0}
    )
    assert checked(corrected, memory_bodies.MemoryAnswer)["version"] == 2
    history = checked(await world.call("GET", path + "/history", token), memory_bodies.HistoryAnswer)
    assert [each["version"] for each in history["items"]] == [1, 2]

    receipt = checked(await world.call("DELETE", path, token), receipt_bodies.ReceiptAnswer, 202)
    assert receipt["count"] == 1
    for answer in (await world.call("GET", path, token), await world.call("GET", path + "?user_id=alice")):
        assert answer.status_code == 404


async def test_import_and_delete_all(world):
    key = await world.declare(f"{world.tenant}_i", [Grant.MEMORY, Grant.IMPORT])
    body = {
        "user_id": "alice",
        "memories": [{"content": "喜欢喝乌龙茶"}, {"content": "Lives in Berlin"}],
        "mode": "verbatim",
    }
    written = checked(await world.call("POST", "/v1/memories", key, json=body), memory_bodies.WrittenMemories)
    assert [(each["content"], each["verdict"], each["reason"]) for each in written["items"]] == [
        ("喜欢喝乌龙茶", "stored", "verbatim"),
        ("Lives in Berlin", "stored", "verbatim"),
    ]
    await world.call("POST", "/v1/memories", key, json={**body, "user_id": "bob"})
    gone = await world.call("DELETE", "/v1/memories", key, json={"confirm": "all", "user_id": "alice"})
    assert checked(gone, receipt_bodies.ReceiptAnswer, 202)["count"] == 2
    left = {
        user: (await world.call("GET", f"/v1/memories?user_id={user}", key)).json()["items"]
        for user in ("alice", "bob")
    }
    assert (len(left["alice"]), len(left["bob"])) == (0, 2)


async def test_search_with_and_without_reasons(world):
    key = await world.declare(f"{world.tenant}_i", [Grant.MEMORY, Grant.IMPORT])
    memories = [{"content": "The user prefers oolong tea in the morning"}, {"content": "The user lives in Berlin"}]
    await world.call("POST", "/v1/memories", key, json={"user_id": "alice", "memories": memories, "mode": "verbatim"})
    body = {"user_id": "alice", "query": "Which oolong tea in the morning?", "min_score": 0.0}
    plain = checked(await world.call("POST", "/v1/memories/search", key, json=body), memory_bodies.SearchAnswer)
    assert plain["items"] and "explain" not in plain["items"][0]
    assert "oolong" in plain["items"][0]["content"]
    assert "embedder" in plain["degraded"]  # the model is away, and the answer says so
    explained = checked(
        await world.call("POST", "/v1/memories/search", key, json={**body, "explain": True}), memory_bodies.SearchAnswer
    )
    assert explained["items"][0]["explain"]
    nobody = await world.call("POST", "/v1/memories/search", key, json={**body, "user_id": "bob"})
    assert nobody.json()["items"] == []


async def test_the_context_call_by_token_and_by_key(world):
    token = (await world.open(session="s1"))["token"]
    await world.call("POST", "/v1/sessions/s1/turns", token, json={"turns": [said("Hello"), said("Hi!", "assistant")]})
    body = {"query": "Where is my order?", "system": "Be kind.", "budget_tokens": 500, "output_reserve": 100}
    by_token = checked(await world.call("POST", "/v1/context", token, json=body), context_bodies.ContextBodyAnswer)
    assert by_token["messages"][0]["role"] == "system"
    assert by_token["messages"][-1] == {"role": "user", "content": "Where is my order?"}
    assert by_token["tokens"]["total"] <= by_token["tokens"]["budget"] == 400
    by_key = await world.call("POST", "/v1/context", json={**body, "session_id": "s1"})
    assert by_key.json()["messages"] == by_token["messages"]
    for path in ("/v1/context", "/v1/context/"):
        assert (await world.call("POST", path, token, json=body)).status_code == 200
    without = await world.call("POST", "/v1/context", json=body)
    assert (without.status_code, without.json()["field"]) == (422, "session_id")
    small = await world.call("POST", "/v1/context", token, json={**body, "budget_tokens": 3, "output_reserve": 0})
    assert (small.status_code, small.json()["field"]) == (422, "budget_tokens")
    assert small.json()["over"] > 0


async def test_health(world):
    assert (await world.call("GET", "/healthz", "")).json() == {"status": "ok"}
    ready = await world.call("GET", "/readyz", "")
    assert (ready.status_code, ready.json()) == (
        200,
        {"status": "degraded", "stores": {"sessions": "ok", "records": "ok", "index": "ok", "embedder": "away"}},
    )
    metrics = await world.call("GET", "/metrics", "")
    assert b"strata_http_requests_total" in metrics.content


async def test_one_look_at_the_index_serves_all_who_ask(world, monkeypatch):
    looks = 0
    ping = world.memory.state.services.index.ping

    async def counted() -> None:
        nonlocal looks
        looks += 1
        await ping()

    monkeypatch.setattr(world.memory.state.services.index, "ping", counted)
    answers = await asyncio.gather(*(world.call("GET", "/readyz", "") for _ in range(20)))
    assert {answer.json()["stores"]["index"] for answer in answers} == {"ok"}
    assert looks == 1


async def test_p40_liveness_asks_no_store(world):
    world.memory.state.services = None
    assert (await world.call("GET", "/healthz", "")).status_code == 200
    assert (await world.call("GET", "/readyz", "")).status_code == 503
    starting = await world.call("GET", "/v1/memories?user_id=alice")
    assert (starting.status_code, starting.json()["type"]) == (503, "urn:strata:problem:unavailable")
