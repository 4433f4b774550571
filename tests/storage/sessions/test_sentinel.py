"""Sessions under Sentinel: found, and found again when the master dies, without a restart."""

import asyncio
import random

import pytest

from memory.errors import Conflict, DeadlineExceeded, Overloaded, Unavailable
from storage.sessions.client import SessionClient
from storage.sessions.idempotency import RedisIdempotency
from storage.sessions.rates import RequestRates
from storage.sessions.redis_store import RedisSessions
from tests.contract.session_backends import contents, opened, scope, turn
from tests.servers import WatchedRedis

PATIENT_S = 60.0
"""A failover takes about four seconds here; the machine that runs tests may be very busy."""


@pytest.fixture
def watched():
    with WatchedRedis() as watched:
        yield watched


async def answered(call, within_s=PATIENT_S):
    """What the call answers in the end, and how often it did not."""
    loop, failures = asyncio.get_running_loop(), 0
    until = loop.time() + within_s
    while True:
        try:
            return await call(), failures
        except (Unavailable, DeadlineExceeded):
            failures += 1
            if loop.time() > until:
                raise
            await asyncio.sleep(random.uniform(0.02, 0.1))


async def test_every_store_of_the_tier_works_under_sentinel(redis_sentinel, tenant):
    client = SessionClient(redis_sentinel, deadline_s=10)
    store, claims, rates = RedisSessions(client), RedisIdempotency(client), RequestRates(client)
    me = await opened(store, scope(tenant))
    await store.append(me, [turn("a", "你好")], 10)
    assert contents((await store.load(me, 5)).turns) == ["你好"]
    await claims.claim(me, "k", "d", 30)
    with pytest.raises(Conflict):
        await claims.claim(me, "k", "d", 30)
    await rates.hit(me, 1)
    with pytest.raises(Overloaded):
        await rates.hit(me, 1)
    assert (await store.forget_user(me), await claims.forget_user(me)) == (1, 1)
    assert [facts.replicas for facts in await client.facts()] == [1]
    await client.ping()
    await client.aclose()


async def test_a_dead_master_is_replaced_without_a_restart(watched, tenant):
    """kill -9 of the master under writes, reads and cancelled calls: the same client goes on with the replica. What was acknowledged
    before the replica had it may be lost, and nothing else: replication is asynchronous."""
    client = SessionClient(watched.url, deadline_s=2)
    store = RedisSessions(client)
    me = await opened(store, scope(tenant), ttl_s=600)
    first = await store.append(me, [turn(f"t{n}") for n in range(50)], 10_000)
    await client.nodes.master.redis.wait(1, 5000)  # the replica has these
    old = watched.master
    old.kill()
    refused = 0
    for n in range(20):
        (kept, failures) = await answered(lambda n=n: store.append(me, [turn(f"u{n}")], 10_000))
        assert kept[0].id == f"u{n}"
        refused += failures
    assert refused > 0
    snapshot = await store.load(me, 1000)
    assert [t.id for t in snapshot.turns] == [t.id for t in first] + [f"u{n}" for n in range(20)]
    assert client.nodes.layout == ("127.0.0.1", next(m.port for m in watched.members if m is not old))
    # the old one comes back as a replica, and nobody writes to it
    await asyncio.to_thread(old.start)
    await answered(lambda: store.append(me, [turn("last")], 10_000))
    assert [t.id for t in (await store.load(me, 1)).turns] == ["last"]
    await client.aclose()


async def test_a_stalled_master_is_left_for_the_new_one(watched, tenant):
    """It takes connections and says nothing: each call ends at its deadline, and the sentinels are asked again."""
    client = SessionClient(watched.url, deadline_s=1)
    store = RedisSessions(client)
    me = await opened(store, scope(tenant), ttl_s=600)
    await store.append(me, [turn("a")], 10)
    await client.nodes.master.redis.wait(1, 5000)
    stalled = watched.master
    stalled.pause()
    with pytest.raises(DeadlineExceeded):
        await store.load(me, 5)
    snapshot, _ = await answered(lambda: store.load(me, 5))
    assert [t.id for t in snapshot.turns] == ["a"]
    stalled.resume()  # still a master in its own eyes; nobody asks it
    assert (await store.append(me, [turn("b")], 10))[0].seq == 2
    await client.aclose()


async def test_dead_sentinels_are_passed_over(watched, tenant):
    watched.sentinels[0].kill()
    watched.sentinels[1].pause()
    client = SessionClient(watched.url, deadline_s=10)
    await opened(RedisSessions(client), scope(tenant))
    await client.aclose()
    watched.sentinels[2].kill()
    client = SessionClient(watched.url, deadline_s=2)
    with pytest.raises(
        (Unavailable, DeadlineExceeded)
    ) as error:  # one sentinel is silent, and time may run out asking it
        await RedisSessions(client).load(scope(tenant), 1)
    assert error.value.args == ("sessions",)
    await client.aclose()


async def test_a_service_that_no_sentinel_knows_is_unavailable(redis_sentinel, tenant):
    client = SessionClient(redis_sentinel.rpartition("/")[0] + "/other", deadline_s=5)
    with pytest.raises(Unavailable):
        await client.ping()
    await client.aclose()


async def test_a_server_that_is_no_sentinel_is_unavailable(redis_server, tenant):
    client = SessionClient("redis+sentinel://" + redis_server.removeprefix("redis://").replace("/0", "/main"))
    with pytest.raises(Unavailable):
        await client.ping()
    await client.aclose()
