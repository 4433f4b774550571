"""Erasure and receipts at the edge (I3): who may, what they see, and what a pending and a complete one look like."""

import jwt
import pytest

from deployments.curation.curator import Curator
from deployments.curation.erasing import Eraser
from deployments.edge.bodies.receipts import PublicKeys, ReceiptAnswer
from deployments.settings import CuratorSettings
from memory.errors import Unavailable
from memory.ids import TenantId, UserId
from memory.scope import Grant, system_scope
from storage.receipts import canonical

CURATION = CuratorSettings(grace_s=0.01, lease_s=30)


@pytest.fixture
async def admin(world):
    """A tenant whose key may everything, with two entries of alice's."""
    tenant = f"{world.tenant}_a"
    key = await world.declare(tenant, [Grant.MEMORY, Grant.IMPORT, Grant.ADMIN])
    body = {
        "user_id": "alice",
        "memories": [{"content": "Lives in Berlin"}, {"content": "喜欢乌龙茶"}],
        "mode": "verbatim",
    }
    assert (await world.call("POST", "/v1/memories", key, json=body)).status_code == 200
    return key


async def complete(world, receipt_id, key):
    """The receipt once it is; this tenant's work alone, for the database is shared."""
    services = world.services
    curator, eraser = Curator("edge", services, CURATION), Eraser("edge", services, CURATION)
    for _ in range(2000):
        await curator.step()
        await eraser.step()
        answer = await world.call("GET", f"/v1/receipts/{receipt_id}", key)
        if answer.json()["completed_at"] is not None:
            return answer
    raise AssertionError("never complete")


async def test_i3_only_a_key_with_admin_erases(world, admin):
    token = (await world.open("alice", "s1", admin))["token"]
    member = await world.declare(f"{world.tenant}_m")
    for credential, why in (
        (member, "This credential lacks the scope `admin`."),
        (token, "Only a tenant key may do this; a session token acts for its own session alone."),
    ):
        refused = await world.call("DELETE", "/v1/users/alice", credential)
        assert (refused.status_code, refused.json()["detail"]) == (403, why)
    assert len((await world.call("GET", "/v1/memories?user_id=alice", admin)).json()["items"]) == 2


async def test_i3_a_receipt_from_pending_to_signed(world, admin):
    asked = await world.call("DELETE", "/v1/users/alice", admin)
    assert asked.status_code == 202
    ReceiptAnswer.model_validate_json(asked.content)
    pending = asked.json()
    assert (pending["action"], pending["user_id"], pending["count"]) == ("erase_user", "alice", 2)
    assert (pending["completed_at"], pending["signature"]) == (None, None)
    done = await complete(world, pending["id"], admin)
    ReceiptAnswer.model_validate_json(done.content)
    document, keys = done.json(), await world.call("GET", "/v1/receipts/keys", "")
    PublicKeys.model_validate_json(keys.content)
    assert {name: one["after"] for name, one in document["stores"].items()} == dict.fromkeys(document["stores"], 0)
    key = jwt.PyJWK(keys.json()["keys"][0])
    assert jwt.PyJWS().decode(document["signature"], key.key, ["EdDSA"]) == canonical(document)


async def test_i3_who_sees_a_receipt(world, admin):
    member = await world.declare(f"{world.tenant}_m")
    alice = (await world.open("alice", "s1", member))["token"]
    bob = (await world.open("bob", "s2", member))["token"]
    body = {"content": "I am allergic to peanuts.", "user_id": "alice"}
    memory = (await world.call("POST", "/v1/memories", member, json=body)).json()["items"][0]["id"]
    receipt = (await world.call("DELETE", f"/v1/memories/{memory}", alice)).json()
    path = f"/v1/receipts/{receipt['id']}"
    assert receipt["user_id"] == "alice"
    assert (await world.call("GET", path, alice)).json()["id"] == receipt["id"]
    assert (await world.call("GET", path + "?user_id=alice", member)).status_code == 200
    unnamed = await world.call("GET", path, member)
    assert (unnamed.status_code, unnamed.json()["field"]) == (422, "user_id")
    for credential, query in ((bob, ""), (member, "?user_id=bob"), (admin, ""), (admin, "?user_id=alice")):
        foreign = await world.call("GET", path + query, credential)
        assert (foreign.status_code, foreign.json()["detail"]) == (404, "No such receipt.")
    audit_only = await world.declare(f"{world.tenant}_x", [Grant.AUDIT])
    assert (await world.call("GET", path, audit_only)).status_code == 403
    admin_only = await world.declare(f"{world.tenant}_o", [Grant.ADMIN])
    assert (await world.call("GET", path, admin_only)).status_code == 404


@pytest.mark.parametrize("spelling", ["alice%20", "al.ice", "alice%00", "a" * 65])
async def test_p24_no_other_spelling_erases(world, admin, spelling):
    assert (await world.call("DELETE", f"/v1/users/{spelling}", admin)).status_code in (400, 422)


@pytest.mark.parametrize("unknown", ["Alice", "nobody", "alic"])
async def test_i3_an_unknown_user_is_not_found_and_not_made(world, admin, unknown):
    for _ in range(2):
        answer = await world.call("DELETE", f"/v1/users/{unknown}", admin)
        assert (answer.status_code, answer.json()["detail"]) == (404, "No such user.")
    assert len((await world.call("GET", "/v1/memories?user_id=alice", admin)).json()["items"]) == 2


async def test_i3_p34_the_same_key_gets_the_same_receipt_and_leaves_nothing_of_the_user(world, admin):
    headers = {"Idempotency-Key": "erase-1"}
    first = await world.call("DELETE", "/v1/users/alice", admin, headers=headers)
    again = await world.call("DELETE", "/v1/users/alice", admin, headers=headers)
    assert (again.status_code, again.content) == (202, first.content)
    assert again.headers["idempotency-replayed"] == "true"
    other = await world.call("DELETE", "/v1/users/bob", admin, headers=headers)
    assert (other.status_code, other.json()["type"]) == (422, "urn:strata:problem:idempotency-mismatch")
    scope = system_scope(TenantId(f"{world.tenant}_a"), UserId("alice"))
    assert await world.services.idempotency.count_user(scope) == 0


async def test_i3_while_sessions_are_away_the_erasure_is_ordered_all_the_same(world, admin, monkeypatch):
    async def away(*_):
        raise Unavailable("sessions")

    await world.open("alice", "s1", admin)
    sessions = type(world.services.sessions)
    with monkeypatch.context() as patch:
        patch.setattr(sessions, "count_user", away)
        patch.setattr(sessions, "forget_user", away)
        asked = await world.call("DELETE", "/v1/users/alice", admin)
        assert asked.status_code == 202
        assert "sessions" not in asked.json()["stores"]
    done = (await complete(world, asked.json()["id"], admin)).json()
    assert (done["stores"]["sessions"]["before"], done["stores"]["sessions"]["after"]) == (1, 0)
