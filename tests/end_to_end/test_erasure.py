"""Erasing an entry, a user, a tenant, through all of Strata (I3): every store counted before and after, and nothing comes back."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import jwt
import numpy as np
import pytest

from deployments.flows.erasing import erase_tenant
from memory.errors import NotFound, Unavailable
from memory.ids import MemoryId, TenantId, UserId, UserRef
from memory.scope import Grant, system_scope
from memory.seal import seal_term
from memory.terms import terms
from storage.protocols import SealedEntry
from storage.receipts import ALGORITHM, canonical
from tests.end_to_end.harness import Strata, Talk, Tenant

pytestmark = pytest.mark.model
SHOP, WEI = TenantId("shop"), UserId("wei")
OF_SHOP, OF_WEI = system_scope(SHOP), system_scope(SHOP, WEI)
ADMIN = frozenset({Grant.MEMORY, Grant.ADMIN, Grant.IMPORT})
EMBEDDED = pytest.mark.parametrize("tier", ["embedded"], indirect=True)
WORDS = ("芒果", "mango", "Reykjavik")


@pytest.fixture
async def shop(strata: Strata) -> Tenant:
    return await strata.tenant("shop", grants=ADMIN)


async def full_life(shop: Tenant, user: str = "wei") -> Talk:
    """Something in every store: turns, state, entries with history, vectors, an answer kept under a key."""
    talk = await shop.open(user)
    await talk.say("我对芒果过敏。", "I live in Reykjavik.")
    await talk.say("I moved to Reykjavik for the mango trees.", role="assistant")
    await talk.call("PATCH", f"/v1/sessions/{talk.id}/state", json={"intent": "buy a mango"})
    entry = (await talk.memories())[0]
    await talk.call("PATCH", f"/v1/memories/{entry['id']}", json={"metadata": {"note": "mango"}})
    body = {"content": "I like mango juice.", "user_id": user}
    kept = await shop.call("POST", "/v1/memories", json=body, headers={"Idempotency-Key": "once"})
    assert kept.json()["items"][0]["verdict"] == "stored"
    await shop.strata.settle()
    return talk


async def held(strata: Strata, user: str = "wei") -> dict[str, int]:
    """What each store holds of a user, by its own count; the index's partition as a whole."""
    scope, services = system_scope(SHOP, UserId(user)), strata.services
    return {
        "sessions": await services.sessions.count_user(scope),
        "idempotency": await services.idempotency.count_user(scope),
        "records": await services.records.count_rows(scope),
        "index": await services.index.count(scope, None),
    }


def found_in_files(home: Path) -> set[str]:
    """Which of the words any file under the home holds. The session tier's log keeps what it was told until it is rewritten
    (docs/erasure.md)."""
    sessions = home / "data" / "sessions"
    files = [path for path in home.rglob("*") if path.is_file() and not path.is_relative_to(sessions)]
    assert len(files) > 3
    raw = b"".join(path.read_bytes() for path in files)
    return {word for word in WORDS if word.encode() in raw or word.encode("utf-16-le") in raw}


def proved(receipt: Any, keys: Any) -> bool:
    """As an outsider checks it: with the published key alone."""
    (key,) = keys["keys"]
    payload = jwt.PyJWS().decode(receipt["signature"], jwt.PyJWK(key).key, [ALGORITHM])
    return bool(payload == canonical(receipt))


async def erased(shop: Tenant, user: str = "wei") -> Any:
    asked = await shop.call("DELETE", f"/v1/users/{user}")
    assert asked.status_code == 202, asked.text
    return asked.json()


async def test_i3_a_user_is_erased_in_every_store(strata, shop):
    talk, other = await full_life(shop), await full_life(shop, "lin")
    before, lins = await held(strata), await held(strata, "lin")
    assert before == {"sessions": 1, "idempotency": 1, "records": before["records"], "index": 6}
    assert before["records"] > 6

    pending = await erased(shop)
    assert (pending["completed_at"], pending["signature"], pending["count"]) == (None, None, 3)
    done = await strata.receipt(pending["id"], shop.key)
    assert await held(strata) == {"sessions": 0, "idempotency": 0, "records": 0, "index": 3}
    assert await held(strata, "lin") == lins | {"index": 3}
    assert {name: (one["before"], one["after"]) for name, one in done["stores"].items()} == {
        "sessions": (1, 0),
        "idempotency": (1, 0),
        "records": (before["records"] - 1, 0),
        "keys": (1, 0),
        "index": (3, 0),
    }
    assert all(one["at"] and one["method"] for one in done["stores"].values())
    assert proved(done, (await strata.call("GET", "/v1/receipts/keys", "")).json())
    assert (await shop.call("GET", f"/v1/receipts/{pending['id']}?user_id=lin")).status_code == 404
    assert (await strata.call("GET", f"/v1/receipts/{pending['id']}", other.token)).status_code == 404
    assert (await strata.call("GET", f"/v1/receipts/{pending['id']}", talk.token)).json()["id"] == pending["id"]
    assert len(await other.search("芒果")) >= 1


@EMBEDDED
async def test_i3_the_raw_files_hold_none_of_his_words(strata, shop, home):
    await full_life(shop)
    assert found_in_files(home) == set(WORDS)
    await strata.receipt((await erased(shop))["id"], shop.key)
    assert found_in_files(home) == set()


async def test_i3_the_key_is_gone_from_the_records_and_from_this_process(strata, shop):
    await full_life(shop)
    keys = strata.services.index._keys
    before = await keys.open(OF_WEI)
    asked = await erased(shop)
    with pytest.raises(NotFound):  # at once: who writes asks the records each time
        await keys.open(OF_WEI, fresh=True)
    await strata.receipt(asked["id"], shop.key)
    assert not [name for name in keys._kept if name[1] == WEI]
    anew = await keys.open(OF_WEI)
    assert (anew.ref != before.ref, anew.key != before.key) == (True, True)


async def test_i3_late_writes_are_refused_and_reads_find_nothing(strata, shop):
    talk = await full_life(shop)
    (entry, *_) = await talk.memories()
    asked = await erased(shop)
    retried = await shop.call("DELETE", "/v1/users/wei")
    assert retried.json()["id"] == asked["id"]
    for method, path, options in (
        ("POST", "/v1/memories", {"json": {"content": "I'm allergic to kiwi.", "user_id": "wei"}}),
        ("POST", "/v1/memories", {"json": {"memories": [{"content": "kiwi"}], "mode": "verbatim", "user_id": "wei"}}),
        ("POST", "/v1/sessions", {"json": {"user_id": "wei"}}),
        ("DELETE", "/v1/memories", {"json": {"confirm": "all", "user_id": "wei"}}),
    ):
        refused = await shop.call(method, path, **options)
        assert (refused.status_code, refused.json()["type"]) == (409, "urn:strata:problem:conflict"), path
        assert any(what_to_do in refused.json()["detail"] for what_to_do in ("try again when", "open it again later"))
    turn = {"turns": [{"role": "user", "content": "I'm allergic to kiwi."}]}
    for method, path, options in (
        ("POST", f"/v1/sessions/{talk.id}/turns", {"json": turn}),
        ("GET", f"/v1/sessions/{talk.id}/turns", {}),
        ("POST", "/v1/context", {"json": {"query": "mango?"}}),
        ("GET", f"/v1/memories/{entry['id']}", {}),
        ("GET", f"/v1/memories/{entry['id']}/history", {}),
        ("PATCH", f"/v1/memories/{entry['id']}", {"json": {"content": "kiwi"}}),
    ):
        answer = await strata.call(method, path, talk.token, **options)
        assert answer.status_code in (404, 409), (path, answer.text)
    assert await talk.memories() == []
    found = await talk.call("POST", "/v1/memories/search", json={"query": "mango", "min_score": 0.0})
    assert (found["items"], found["degraded"]) == ([], [])
    assert (await shop.call("GET", "/v1/sessions?user_id=wei")).json()["items"] == []
    await strata.receipt(asked["id"], shop.key)
    assert await held(strata) == {"sessions": 0, "idempotency": 0, "records": 0, "index": 0}


async def test_i3_afterwards_the_id_begins_anew_and_meets_nothing_of_its_predecessor(strata, shop):
    before = await full_life(shop)
    await strata.receipt((await erased(shop))["id"], shop.key)
    assert (await strata.call("GET", f"/v1/sessions/{before.id}", before.token)).status_code == 404
    talk = await shop.open("wei")
    assert await talk.memories() == []
    said = await talk.say("I'm allergic to kiwi.")
    assert said["verdicts"][0]["verdict"] == "stored"
    await strata.settle()
    assert [hit["content"] for hit in await talk.search("mango", min_score=0.0)] == await talk.contents()
    assert any("kiwi" in content for content in await talk.recalled("Is kiwi fine for me?"))
    assert (await held(strata))["index"] == 1


async def test_p26_what_a_stalled_request_leaves_after_the_removal_is_found_by_the_verification(strata, shop):
    """A write that was let through before the fence, and arrives after everything was removed: another round, and none is lost."""
    await full_life(shop)
    asked = await erased(shop)
    services, eraser = strata.services, strata.workers.eraser
    ref = (await services.records.claim_erasures(OF_SHOP, "look", 1, 0.0, services.clock()))[0].refs[0]
    await eraser.step()  # counts
    await eraser.step()  # removes
    (vector,) = np.eye(1, services.index._backend._dimension, dtype=np.float32)
    late = SealedEntry(MemoryId("m-late"), ref, 1, vector, ("aaaaaaaaaaaa",))
    await services.index._backend.upsert(OF_WEI, [late])
    assert await services.index.count(OF_SHOP, ref) == 1
    done = await strata.receipt(asked["id"], shop.key)
    assert await services.index.count(OF_SHOP, ref) == 0
    assert done["stores"]["index"]["before"] == 4  # three, and the late one


STEPS = [
    ("sessions", "count_user"),
    ("sessions", "forget_user"),
    ("idempotency", "forget_user"),
    ("records", "count_rows"),
    ("index", "remove_user"),
    ("index", "scrub"),
    ("index", "count"),
    ("records", "advance_erasure"),
    ("sessions", "lift_fence"),
]


@EMBEDDED
@pytest.mark.parametrize(("store", "call"), STEPS)
async def test_i3_a_failure_at_any_step_delays_the_erasure_and_loses_nothing(strata, shop, monkeypatch, store, call):
    """Each call fails before it does anything, then after it did everything: as a crash there would look to the next worker."""
    await full_life(shop)
    before = await held(strata)
    asked = await erased(shop)
    target = getattr(strata.services, store)
    real: Callable[..., Awaitable[Any]] = getattr(target, call)
    failures = iter(["before", "after"])

    async def failing(*given: Any, **options: Any) -> Any:
        when = next(failures, "never")
        if when == "before":
            raise Unavailable(store)
        answered = await real(*given, **options)
        if when == "after":
            raise Unavailable(store)
        return answered

    monkeypatch.setattr(target, call, failing)  # on the layer that measures each store
    done = await strata.receipt(asked["id"], shop.key)
    assert {name: one["before"] for name, one in done["stores"].items()} == {
        "sessions": 1,
        "idempotency": 1,
        "records": before["records"] - 1,
        "keys": 1,
        "index": 3,
    }
    assert await held(strata) == {"sessions": 0, "idempotency": 0, "records": 0, "index": 0}


async def test_i3_a_user_whom_only_the_session_tier_knows(strata, shop):
    opened = await shop.call("POST", "/v1/sessions", json={"user_id": "wei"})
    talk = Talk(strata, opened.json()["session_id"], opened.json()["token"])
    await talk.say("It is raining.", memory="off")
    asked = await erased(shop)
    done = await strata.receipt(asked["id"], shop.key)
    assert (done["stores"]["sessions"]["before"], done["stores"]["sessions"]["after"]) == (1, 0)
    assert await held(strata) == {"sessions": 0, "idempotency": 0, "records": 0, "index": 0}
    assert (await shop.call("DELETE", "/v1/users/nobody")).status_code == 404


async def test_l10_one_entry_is_deleted_with_a_receipt(strata, shop, home):
    talk = await full_life(shop)
    (entry,) = [memory for memory in await talk.memories() if "juice" in memory["content"]]
    receipt = await talk.call("DELETE", f"/v1/memories/{entry['id']}")
    assert (receipt["action"], receipt["count"], receipt["signature"]) == ("delete", 1, None)
    done = await strata.receipt(receipt["id"], talk.token)
    assert {name: (one["before"], one["after"]) for name, one in done["stores"].items()} == {
        "records": (1, 0),
        "index": (1, 0),
    }
    assert proved(done, (await strata.call("GET", "/v1/receipts/keys", "")).json())
    assert len(await talk.memories()) == 2
    again = await strata.call("DELETE", "/v1/memories", talk.token, json={"confirm": "all"})
    await strata.receipt(again.json()["id"], talk.token)
    empty = (await strata.call("DELETE", "/v1/memories", talk.token, json={"confirm": "all"})).json()
    assert (empty["count"], empty["completed_at"] is None) == (0, False)
    assert proved(empty, (await strata.call("GET", "/v1/receipts/keys", "")).json())


@EMBEDDED
async def test_l10_the_index_file_holds_nothing_of_a_deleted_entry(strata, shop, home):
    """Not even sealed, and the user's key is still there."""
    talk = await full_life(shop)
    key = (await strata.services.index._keys.open(OF_WEI)).key
    (doomed,) = [memory for memory in await talk.memories() if "juice" in memory["content"]]
    others = [memory["content"] for memory in await talk.memories() if memory["id"] != doomed["id"]]
    kept = {term for content in (*others, "I moved to Reykjavik for the mango trees.") for term in terms(content)}
    words = [seal_term(term, key) for term in set(terms(doomed["content"])) - kept]
    assert words

    def found() -> set[str]:
        files = [path for path in (home / "index").rglob("*") if path.is_file()]
        raw = b"".join(path.read_bytes() for path in files)
        return {word for word in [doomed["id"], *words] if word.encode() in raw}

    assert found() == {doomed["id"], *words}
    receipt = await talk.call("DELETE", f"/v1/memories/{doomed['id']}")
    await strata.receipt(receipt["id"], talk.token)
    assert found() == set()


async def test_i3_a_tenant_is_erased_and_its_neighbour_is_not(strata, shop):
    near = await strata.tenant("shop-2")
    neighbour = await near.open("wei")
    await neighbour.say("我对芒果过敏。")
    await full_life(shop)
    await full_life(shop, "lin")
    services = strata.services
    receipt = await erase_tenant(services.records, SHOP, "operator", services.clock())
    await services.policies.refresh()
    assert (await shop.call("GET", "/v1/memories?user_id=wei")).status_code in (401, 403)
    async with asyncio.timeout(60):
        while (done := await services.records.receipt(OF_SHOP, receipt.id)).completed_at is None:
            await strata.curator.step()
            await strata.workers.eraser.step()
            await asyncio.sleep(0.02)
    await services.policies.refresh()
    assert {name: one.after for name, one in done.stores.items()} == dict.fromkeys(done.stores, 0)
    assert (done.count, done.user_id, done.stores["index"].before, done.stores["keys"].before) == (6, None, 6, 2)
    assert done.stores["sessions"].before > 0
    assert (await shop.call("GET", "/v1/memories?user_id=wei")).status_code == 401
    assert await services.sessions.count_tenant(OF_SHOP) == 0
    assert await services.records.count_rows(OF_SHOP) == 0
    with pytest.raises(NotFound):
        await services.tenants.tenant(system_scope(), SHOP)
    assert await services.index.tenants(system_scope()) == {"shop-2"}
    (vector,) = np.eye(1, services.index._backend._dimension, dtype=np.float32)
    late = SealedEntry(MemoryId("m-late"), UserRef("u-late"), 1, vector, ("aaaaaaaaaaaa",))
    with pytest.raises(NotFound):  # a late write brings nothing back
        await services.index._backend.upsert(OF_WEI, [late])
    assert await services.index.tenants(system_scope()) == {"shop-2"}
    await strata.settle()
    assert len(await neighbour.search("芒果")) == 1
