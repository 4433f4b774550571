"""Idempotency-Keys and writes that run to their end: a retry stores nothing twice, and nothing equal on purpose is collapsed (P34)."""

import asyncio

import pytest

from memory.scope import Grant

TURN = {"turns": [{"role": "user", "content": "The same."}]}
PATH = "/v1/sessions/s1/turns"


def keyed(key="k-1"):
    return {"Idempotency-Key": key}


async def count(world):
    return len((await world.call("GET", PATH)).json()["items"])


async def test_p34_the_same_request_gets_the_same_answer(world):
    await world.open(session="s1")
    first = await world.call("POST", PATH, json=TURN, headers=keyed())
    again = await world.call("POST", PATH, json=TURN, headers=keyed())
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.content == again.content
    assert ("idempotency-replayed" in first.headers, again.headers["idempotency-replayed"]) == (False, "true")
    assert await count(world) == 1


async def test_p34_without_a_key_nothing_is_ever_collapsed(world):
    await world.open(session="s1")
    for _ in range(2):
        await world.call("POST", PATH, json=TURN)
    await world.call("POST", PATH, json={"turns": TURN["turns"] * 2}, headers=keyed())
    assert await count(world) == 4


async def test_another_body_under_the_same_key(world):
    await world.open(session="s1")
    await world.call("POST", PATH, json=TURN, headers=keyed())
    other = await world.call("POST", PATH, json={"turns": [{"role": "user", "content": "Else."}]}, headers=keyed())
    assert (other.status_code, other.json()["type"]) == (422, "urn:strata:problem:idempotency-mismatch")
    assert other.json()["field"] == "Idempotency-Key"
    elsewhere = await world.call("PATCH", "/v1/sessions/s1/state", json={"intent": "x"}, headers=keyed())
    assert elsewhere.status_code == 422
    assert await count(world) == 1


async def test_keys_are_a_users_own(world):
    await world.open("alice", "s1")
    await world.open("bob", "s2")
    for session in ("s1", "s2"):
        answer = await world.call("POST", f"/v1/sessions/{session}/turns", json=TURN, headers=keyed())
        assert "idempotency-replayed" not in answer.headers
    stranger = await world.declare(f"{world.tenant}_x")
    await world.open("alice", "s1", stranger)
    answer = await world.call("POST", PATH, stranger, json=TURN, headers=keyed())
    assert "idempotency-replayed" not in answer.headers


async def test_still_running(world, monkeypatch):
    await world.open(session="s1")
    begun, go_on = asyncio.Event(), asyncio.Event()
    append = world.services.sessions.append

    async def slow(*args):
        begun.set()
        await go_on.wait()
        return await append(*args)

    monkeypatch.setattr(world.services.sessions, "append", slow)
    first = asyncio.create_task(world.call("POST", PATH, json=TURN, headers=keyed()))
    await begun.wait()
    second = await world.call("POST", PATH, json=TURN, headers=keyed())
    assert (second.status_code, second.json()["type"]) == (409, "urn:strata:problem:conflict")
    go_on.set()
    assert (await first).status_code == 200
    assert await count(world) == 1


async def test_p34_a_client_that_leaves_finds_its_answer_when_it_comes_back(world, monkeypatch):
    await world.open(session="s1")
    begun, go_on = asyncio.Event(), asyncio.Event()
    append = world.services.sessions.append

    async def slow(*args):
        begun.set()
        await go_on.wait()
        return await append(*args)

    monkeypatch.setattr(world.services.sessions, "append", slow)
    left = asyncio.create_task(world.call("POST", PATH, json=TURN, headers=keyed()))
    await begun.wait()
    left.cancel()
    with pytest.raises(asyncio.CancelledError):
        await left
    go_on.set()
    async with asyncio.timeout(10):
        while True:
            again = await world.call("POST", PATH, json=TURN, headers=keyed())
            if again.status_code != 409:
                break
            await asyncio.sleep(0.02)
    assert (again.status_code, again.headers["idempotency-replayed"]) == (200, "true")
    assert await count(world) == 1


async def test_p34_a_run_repeated_after_a_crash_makes_nothing_twice(world, monkeypatch):
    """The work was done, but the process died before the answer was kept: the claim is free again, and the ids are the same."""
    await world.open(session="s1")

    async def died(scope, key, digest, *rest):
        await world.services.idempotency.release(scope, key, digest)

    with monkeypatch.context() as patch:
        patch.setattr(world.services.idempotency, "finish", died)
        first = await world.call("POST", PATH, json=TURN, headers=keyed())
    again = await world.call("POST", PATH, json=TURN, headers=keyed())
    assert "idempotency-replayed" not in again.headers
    assert again.json()["turns"] == first.json()["turns"]
    assert await count(world) == 1


async def test_a_refused_write_leaves_its_key_free(world):
    await world.open(session="s1")
    refused = await world.call("DELETE", PATH + "/t1", headers=keyed())
    assert refused.status_code == 404
    assert (await world.call("POST", PATH, json=TURN, headers=keyed())).status_code == 200


async def test_sessions_are_opened_once_and_each_answer_has_a_fresh_token(world):
    first = await world.call("POST", "/v1/sessions", json={"user_id": "alice"}, headers=keyed())
    again = await world.call("POST", "/v1/sessions", json={"user_id": "alice"}, headers=keyed())
    assert first.json()["session_id"] == again.json()["session_id"]
    assert again.headers["idempotency-replayed"] == "true"
    for answer in (first, again):
        path = f"/v1/sessions/{answer.json()['session_id']}"
        assert (await world.call("GET", path, answer.json()["token"])).status_code == 200
    assert len((await world.call("GET", "/v1/sessions?user_id=alice")).json()["items"]) == 1


async def test_no_token_is_kept_with_an_answer(world):
    kept = []
    finish = world.services.idempotency.finish

    async def seen(scope, key, digest, status, body):
        kept.append(body)
        await finish(scope, key, digest, status, body)

    world.services.idempotency.finish = seen
    await world.call("POST", "/v1/sessions", json={"user_id": "alice"}, headers=keyed())
    assert kept and b"st_" not in kept[0]


async def test_explicit_writes_are_stored_once(world):
    key = await world.declare(f"{world.tenant}_i", [Grant.MEMORY, Grant.IMPORT])
    body = {"user_id": "alice", "memories": [{"content": "Lives in Berlin"}], "mode": "verbatim"}
    for _ in range(2):
        await world.call("POST", "/v1/memories", key, json=body, headers=keyed())
    assert len((await world.call("GET", "/v1/memories?user_id=alice", key)).json()["items"]) == 1


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 201, "schlüssel".encode("latin-1")])
async def test_malformed_keys(world, key):
    await world.open(session="s1")
    answer = await world.call("POST", PATH, json=TURN, headers=keyed(key))
    assert (answer.status_code, answer.json()["field"]) == (422, "Idempotency-Key")


async def test_a_write_has_a_deadline_of_its_own(world, monkeypatch):
    await world.open(session="s1")
    from deployments.edge.apps import memory_app

    hurried = memory_app(0.2)
    hurried.state.services = world.services

    async def hangs(*args):
        await asyncio.sleep(60)

    monkeypatch.setattr(world.services.sessions, "append", hangs)
    world.memory = hurried
    answer = await world.call("POST", PATH, json=TURN, headers=keyed())
    assert (answer.status_code, answer.json()["detail"]) == (504, "The write did not answer in time.")
