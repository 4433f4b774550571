"""What every store of Idempotency-Keys promises: storage.protocols.IdempotencyStore."""

import asyncio

import pytest

from memory.errors import Conflict, IdempotencyMismatch
from storage.protocols import Claim
from storage.sessions.idempotency import DAY_MS, RedisIdempotency
from tests.contract.session_backends import gone, kept, scope


@pytest.fixture
def claims(session_client):
    return RedisIdempotency(session_client)


RUN = Claim("run")


async def test_p34_the_first_caller_runs_and_later_ones_get_its_answer(claims, tenant):
    me = scope(tenant)
    assert await claims.claim(me, "k", "d", 30) == RUN
    with pytest.raises(Conflict, match="still running"):
        await claims.claim(me, "k", "d", 30)
    body = b'{"\xe4\xbd\xa0": 1}\x00\xff'
    await claims.finish(me, "k", "d", 201, body)
    for _ in range(2):
        assert await claims.claim(me, "k", "d", 30) == Claim("done", 201, body)


async def test_another_body_under_the_same_key_is_a_mismatch_running_or_done(claims, tenant):
    me = scope(tenant)
    await claims.claim(me, "k", "d", 30)
    with pytest.raises(IdempotencyMismatch):
        await claims.claim(me, "k", "other", 30)
    await claims.finish(me, "k", "d", 200, b"")
    with pytest.raises(IdempotencyMismatch):
        await claims.claim(me, "k", "other", 30)
    assert await claims.claim(me, "k", "d", 30) == Claim("done", 200, b"")


async def test_failed_work_frees_its_key(claims, tenant):
    me = scope(tenant)
    await claims.claim(me, "k", "d", 30)
    await claims.release(me, "k", "d")
    assert await claims.claim(me, "k", "other", 30) == RUN
    await claims.release(me, "k", "d")  # not its claim any more
    with pytest.raises(Conflict):
        await claims.claim(me, "k", "other", 30)
    await claims.finish(me, "k", "other", 200, b"x")
    await claims.release(me, "k", "other")  # done is done
    assert (await claims.claim(me, "k", "other", 30)).state == "done"


async def test_the_claim_of_a_dead_holder_is_free_after_its_lease(claims, session_client, tenant):
    me = scope(tenant)
    await claims.claim(me, "k", "d", 0.3)
    await gone(session_client, f"strata:claim:{{{tenant}:*")
    assert await claims.claim(me, "k", "d", 30) == RUN


async def test_of_two_who_finished_the_same_work_the_first_answer_stays(claims, tenant):
    me = scope(tenant)
    await claims.claim(me, "k", "d", 0.1)
    await asyncio.sleep(0.2)
    await claims.claim(me, "k", "d", 30)
    await claims.finish(me, "k", "d", 201, b"one")
    await claims.finish(me, "k", "d", 201, b"two")
    assert (await claims.claim(me, "k", "d", 30)).body == b"one"


async def test_a_late_finish_never_answers_for_another_body(claims, tenant):
    me = scope(tenant)
    await claims.claim(me, "k", "d", 0.1)
    await asyncio.sleep(0.2)
    await claims.claim(me, "k", "other", 30)
    await claims.finish(me, "k", "d", 201, b"late")
    with pytest.raises(Conflict):
        await claims.claim(me, "k", "other", 30)


async def test_a_finish_after_the_lease_still_counts_where_nobody_came(claims, tenant):
    me = scope(tenant)
    await claims.claim(me, "k", "d", 0.1)
    await asyncio.sleep(0.2)
    await claims.finish(me, "k", "d", 201, b"slow")
    assert await claims.claim(me, "k", "d", 30) == Claim("done", 201, b"slow")


async def test_of_many_at_once_one_runs(claims, tenant):
    me = scope(tenant)
    results = await asyncio.gather(*(claims.claim(me, "k", "d", 30) for _ in range(40)), return_exceptions=True)
    assert results.count(RUN) == 1
    assert sum(isinstance(r, Conflict) for r in results) == 39


async def test_answers_are_kept_for_a_day_and_not_for_ever(claims, session_client, tenant):
    me = scope(tenant)
    await claims.claim(me, "k", "d", 30)
    (lives_ms,) = (await kept(session_client, f"strata:claim:*{tenant}*")).values()
    assert 0 < lives_ms <= 30_000
    await claims.finish(me, "k", "d", 200, b"")
    (lives_ms,) = (await kept(session_client, f"strata:claim:*{tenant}*")).values()
    assert DAY_MS - 60_000 < lives_ms <= DAY_MS == 86_400_000


async def test_an_answer_is_forgotten_after_its_time(session_client, tenant):
    claims = RedisIdempotency(session_client, keep_ms=150)
    me = scope(tenant)
    await claims.claim(me, "k", "d", 30)
    await claims.finish(me, "k", "d", 200, b"")
    await asyncio.sleep(0.3)
    assert await claims.claim(me, "k", "other", 30) == RUN


@pytest.mark.parametrize(
    "other",
    [("alice_", "k"), ("Alice", "k"), (None, "k"), ("alice", "K"), ("alice", "k "), ("alice", ""), ("alice", "钥匙")],
)
async def test_p24_lookalike_users_and_keys_claim_apart(claims, tenant, other):
    user, key = other
    await claims.claim(scope(tenant), "k", "d", 30)
    assert await claims.claim(scope(tenant, user), key, "another", 30) == RUN
    assert await claims.claim(scope(tenant + "x"), "k", "another", 30) == RUN


async def test_claims_are_the_users_whatever_the_session(claims, tenant):
    """24 h per tenant and user."""
    await claims.claim(scope(tenant, "alice", "s1"), "k", "d", 30)
    with pytest.raises(Conflict):
        await claims.claim(scope(tenant, "alice", None), "k", "d", 30)


@pytest.mark.parametrize("key", ["x" * 5000, "with\nnewline", "a}:{b", "\ud800", "alice@example.org"])
async def test_a_key_of_any_shape_is_held_as_a_digest(claims, session_client, tenant, key):
    await claims.claim(scope(tenant), key, "d", 30)
    (held,) = await kept(session_client, f"strata:claim:*{tenant}*")
    assert held.startswith(f"strata:claim:{{{tenant}:alice}}:") and len(held) < 130
    assert "example" not in held
