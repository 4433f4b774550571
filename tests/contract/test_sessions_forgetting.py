"""What every session store and store of Idempotency-Keys promises of forgetting: nothing is left, and nothing comes back."""

import asyncio
import random

import pytest

from memory.errors import Conflict, Forbidden, NotFound, StrataError
from memory.scope import system_scope
from memory.turns import TaskState
from storage.protocols import Claim
from storage.sessions.client import SessionClient
from storage.sessions.idempotency import RedisIdempotency
from storage.sessions.redis_store import RedisSessions
from tests.contract.session_backends import gone, kept, opened, scope, server_of, session_of, turn

FENCE_S = 30.0


@pytest.fixture
def claims(session_client):
    return RedisIdempotency(session_client)


async def used(sessions, claims, me, marker="secret"):
    """A session with something in each of its parts, and an answer kept under a key."""
    await opened(sessions, me)
    await sessions.append(me, [turn("a", marker)], 10)
    await sessions.put_state(me, TaskState(intent=marker), 0)
    await sessions.set_preloaded(me, ["m1"])
    await claims.claim(me, "done", "d", 30)
    await claims.finish(me, "done", "d", 200, marker.encode())
    await claims.claim(me, "running", "d", 30)


async def all_keys(client, tenant):
    return set(await kept(client, f"strata:*{tenant}*"))


async def test_nothing_of_a_forgotten_user_is_left_and_others_keep_all(sessions, claims, session_client, tenant):
    alice, bob = scope(tenant), scope(tenant, "alice_", "s2")
    await used(sessions, claims, alice)
    await opened(sessions, scope(tenant, "alice", "s3"))
    await used(sessions, claims, bob)
    before = await all_keys(session_client, tenant)
    assert (await sessions.count_user(alice), await claims.count_user(alice)) == (2, 2)
    assert (await sessions.forget_user(alice), await claims.forget_user(alice)) == (2, 2)
    assert (await sessions.count_user(alice), await claims.count_user(alice)) == (0, 0)
    left = await all_keys(session_client, tenant)
    assert left == {key for key in before if "alice_" in key or ":s2}" in key}
    assert not any("{" + f"{tenant}:alice" + "}" in key or ":user:alice:" in key for key in left)
    assert (await sessions.load(bob, 5)).turns[0].content == "secret"
    assert await claims.claim(bob, "done", "d", 30) == Claim("done", 200, b"secret")
    assert (await sessions.forget_user(alice), await claims.forget_user(alice)) == (0, 0)


async def test_what_no_list_names_is_found_all_the_same(sessions, session_client, tenant):
    """A list and its sessions may be on two servers: a half that was lost must not hide the other."""
    me = await opened(sessions, scope(tenant))
    async for keys in session_client.scan(f"strata:sessions:{{{tenant}:*"):
        for key in keys:
            (node,) = await session_client.nodes.serving([key.decode()])
            await node.redis.delete(key)
    assert (await sessions.page(me, 10, None)).items == ()
    assert await sessions.count_user(me) == 1
    assert await sessions.forget_user(me) == 1
    assert await all_keys(session_client, tenant) == set()


async def test_a_fence_keeps_a_forgotten_user_out_for_its_time(sessions, session_client, tenant):
    me = await opened(sessions, scope(tenant))
    assert await sessions.forget_user(me, FENCE_S) == 1
    with pytest.raises(Conflict):
        await opened(sessions, me)
    await opened(sessions, scope(tenant, "bob", "s2"))
    for call in (sessions.append(me, [turn("a")], 10), sessions.get(me)):
        with pytest.raises(NotFound, match="session"):
            await call
    assert await sessions.count_user(me) == 0
    fence = f"strata:fence:{{{tenant}:alice}}"
    (lives_ms,) = (await kept(session_client, f"strata:fence:{{{tenant}:*")).values()
    assert 0 < lives_ms <= FENCE_S * 1000
    await (await server_of(session_client, fence)).pexpire(fence, 1)  # its time has passed
    await gone(session_client, fence)
    await opened(sessions, me)  # the id may begin anew
    assert (await sessions.load(me, 5)).turns == ()


async def test_a_second_shorter_fence_does_not_take_the_first_one_down(sessions, session_client, tenant):
    me = scope(tenant)
    for fence_s in (60.0, 1.0, 0.0):
        await sessions.forget_user(me, fence_s)
    (lives_ms,) = (await kept(session_client, f"strata:fence:{{{tenant}:*")).values()
    assert lives_ms > 30_000


async def test_a_lifted_fence_lets_the_user_begin_anew_at_once(sessions, session_client, tenant):
    me = scope(tenant)
    of_user, of_tenant = system_scope(me.tenant_id, me.user), system_scope(me.tenant_id)
    await sessions.forget_user(me, 60.0)
    await sessions.forget_tenant(of_tenant, 60.0)
    for lifted in (of_user, of_tenant):
        with pytest.raises(Conflict):
            await opened(sessions, me)
        await sessions.lift_fence(lifted)
    await opened(sessions, me)
    await sessions.lift_fence(of_user)  # where none stands, nothing happens
    with pytest.raises(Forbidden):
        await sessions.lift_fence(me)


async def test_no_answer_is_kept_for_a_fenced_user(sessions, claims, session_client, tenant):
    """The request that was running when its user was erased ends afterwards: its answer holds what he said."""
    me = scope(tenant)
    await claims.claim(me, "k", "d", 30)
    await sessions.forget_user(me, FENCE_S)
    await claims.finish(me, "k", "d", 200, b"secret")  # even before the claims are forgotten
    assert await claims.count_user(me) == 0
    await claims.forget_user(me)
    await claims.finish(me, "k", "d", 200, b"secret")
    assert await claims.claim(me, "new", "d", 30) == Claim("run")  # the work itself is refused elsewhere
    await claims.finish(me, "new", "d", 200, b"secret")
    await claims.release(me, "new", "d")
    assert await claims.count_user(me) == 0
    assert await all_keys(session_client, tenant) == {f"strata:fence:{{{tenant}:alice}}"}


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_is_under_way_nothing_of_a_fenced_user_comes_back(
    sessions, claims, session_client, tenant, seed
):
    """Opens, turns, states and answers of a user race with his erasure; afterwards he has nothing, and only the fence is there."""
    rng = random.Random(seed)
    for n in range(10):
        await opened(sessions, scope(tenant, "alice", f"s{n}"))

    async def busy(worker):
        for step in range(40):
            me = scope(tenant, "alice", f"s{rng.randrange(30)}")
            try:
                match rng.randrange(5):
                    case 0 | 1:
                        await opened(sessions, me)
                    case 2:
                        await sessions.append(me, [turn(f"t{worker}_{step}")], 1000)
                    case 3:
                        await sessions.put_state(me, TaskState(intent="x"), (await sessions.state(me)).version)
                    case _:
                        await claims.claim(me, f"k{worker}_{step}", "d", 60)
                        await claims.finish(me, f"k{worker}_{step}", "d", 200, b"secret")
            except (Conflict, NotFound):
                pass

    async def erase():
        await asyncio.sleep(rng.uniform(0, 0.15))
        await sessions.forget_user(scope(tenant), FENCE_S)
        await claims.forget_user(scope(tenant))

    await asyncio.gather(*(busy(worker) for worker in range(6)), erase())
    assert (await sessions.count_user(scope(tenant)), await claims.count_user(scope(tenant))) == (0, 0)
    assert await all_keys(session_client, tenant) == {f"strata:fence:{{{tenant}:alice}}"}


class Died(BaseException):
    """A process that ends here does nothing more, not even what its handlers would."""


STEPS = ["list_reserve", "open", "list_confirm", "opened"]


@pytest.mark.parametrize(
    ("erased_before", "last"), [(early, late) for place, early in enumerate(STEPS) for late in STEPS[place:]]
)
async def test_an_opening_that_dies_beside_an_erasure_leaves_nothing_for_long(
    session_url, sessions, tenant, erased_before, last
):
    """The erasure falls before one step of an opening, and the process dies after another: what is left is nobody's, can't be used,
    and is gone within the deadline of a call."""
    client = SessionClient(session_url, deadline_s=1.0)
    store, me = RedisSessions(client), scope(tenant)
    run = client.run

    async def mortal(*calls, **options):
        if calls[0].script == erased_before:
            await sessions.forget_user(me, FENCE_S)
        answers = await run(*calls, **options)
        if calls[0].script == last:
            raise Died
        return answers

    client.run = mortal
    with pytest.raises((Died, StrataError)):
        await store.open(me, session_of(me), 3600, 10)
    for call in (sessions.get(me), sessions.append(me, [turn("a")], 10), sessions.load(me, 1)):
        with pytest.raises(NotFound):
            await call
    for _ in range(100):
        if await sessions.count_user(me) == 0:
            break
        await asyncio.sleep(0.1)
    assert await sessions.count_user(me) == 0
    await client.aclose()


async def test_nothing_of_a_forgotten_tenant_is_left_and_its_neighbours_keep_all(
    sessions, claims, session_client, tenant
):
    system, neighbour = system_scope(tenant), scope(tenant + "_", "alice")
    for user in ("alice", "bob"):
        await used(sessions, claims, scope(tenant, user, f"of_{user}"))
    await used(sessions, claims, neighbour)
    assert await sessions.count_tenant(system) == 2 * (5 + 3 + 2)
    assert await sessions.forget_tenant(system, FENCE_S) == 2
    assert await sessions.count_tenant(system) == 0
    left = await all_keys(session_client, tenant)
    assert {key for key in left if f"{{{tenant}:" in key} == {f"strata:fence:{{{tenant}:}}"}
    assert (await sessions.load(neighbour, 5)).turns[0].content == "secret"
    assert await claims.claim(neighbour, "done", "d", 30) == Claim("done", 200, b"secret")
    with pytest.raises(Conflict):
        await opened(sessions, scope(tenant, "carol"))
    me = scope(tenant, "bob")
    await claims.claim(me, "late", "d", 30)
    await claims.finish(me, "late", "d", 200, b"secret")
    assert await sessions.count_tenant(system) == 0
    assert await sessions.forget_tenant(system) == 0


async def test_a_tenants_end_races_with_everything_and_leaves_nothing(sessions, claims, session_client, tenant):
    """As an erasure does it: forgotten, and, after the deadline of what was under way, looked at again."""

    async def busy(worker):
        for step in range(25):
            me = scope(tenant, f"u{worker}", f"s{worker}_{step}")
            try:
                await opened(sessions, me)
                await sessions.append(me, [turn("a")], 10)
                await claims.claim(me, f"k{step}", "d", 60)
                await claims.finish(me, f"k{step}", "d", 200, b"secret")
            except (Conflict, NotFound):
                pass

    async def erase():
        await asyncio.sleep(0.05)
        await sessions.forget_tenant(system_scope(tenant), FENCE_S)

    await asyncio.gather(*(busy(worker) for worker in range(6)), erase())
    assert await kept(session_client, f"strata:session*:{{{tenant}:*") == {}
    claimed = await kept(session_client, f"strata:claim:{{{tenant}:*")
    for key in claimed:  # running ones at most, without an answer
        (node,) = await session_client.nodes.serving([key])
        assert await node.redis.hkeys(key) == [b"digest"]
    await sessions.forget_tenant(system_scope(tenant), FENCE_S)
    assert await sessions.count_tenant(system_scope(tenant)) == 0


async def test_only_strata_itself_forgets_a_tenant(sessions, tenant):
    await opened(sessions, scope(tenant))
    for call in (sessions.forget_tenant(scope(tenant)), sessions.count_tenant(scope(tenant))):
        with pytest.raises(Forbidden):
            await call
    assert await sessions.count_user(scope(tenant)) == 1


async def test_p20_forgetting_and_counting_need_a_user(sessions, claims, tenant):
    await opened(sessions, scope(tenant))
    for store in (sessions, claims):
        for call in (store.forget_user(scope(tenant, None)), store.count_user(scope(tenant, None))):
            with pytest.raises(NotFound, match="user"):
                await call
    assert await sessions.count_user(scope(tenant)) == 1
