"""Sessions in a cluster: every call finds its server, also while slots move and servers come and go."""

import asyncio
import contextlib
import random

import pytest

from memory.errors import Conflict, DeadlineExceeded, Unavailable
from memory.turns import TaskState
from storage.sessions.client import SessionClient
from storage.sessions.idempotency import RedisIdempotency
from storage.sessions.redis_store import RedisSessions
from tests.contract.session_backends import contents, kept, opened, scope, turn
from tests.servers import RedisMasters

SESSION = "strata:session:{%s:s1}:owner"


@pytest.fixture(scope="module")
def cluster():
    with RedisMasters() as cluster:
        yield cluster


@pytest.fixture
async def client(cluster):
    client = SessionClient(cluster.url, deadline_s=10)
    yield client
    await client.aclose()


class Move:
    """A slot on its way from one master to another, step by step as an operator's tool does it."""

    def __init__(self, cluster, key):
        self.source = cluster.node_of(key)
        self.target = next(node for node in cluster.nodes if node is not self.source)
        with self.source.client() as source:
            self.slot = source.execute_command("CLUSTER", "KEYSLOT", key)
        self.nodes = [self.target, self.source, *(n for n in cluster.nodes if n not in (self.source, self.target))]

    def begin(self):
        self._on(self.target, "IMPORTING", self._id(self.source))
        self._on(self.source, "MIGRATING", self._id(self.target))

    def move(self, most=1000):
        """Keys, one by one. How many there were."""
        with self.source.client() as source:
            keys = source.execute_command("CLUSTER", "GETKEYSINSLOT", self.slot, most)
            for key in keys:
                source.execute_command("MIGRATE", "127.0.0.1", self.target.port, key, 0, 5000)
        return len(keys)

    def end(self):
        for node in self.nodes:
            self._on(node, "NODE", self._id(self.target))

    def _on(self, node, *what):
        with node.client() as client:
            client.execute_command("CLUSTER", "SETSLOT", self.slot, *what)

    def _id(self, node):
        with node.client() as client:
            return client.execute_command("CLUSTER", "MYID")


async def test_sessions_are_spread_and_all_found_again(client, cluster, tenant):
    store, claims = RedisSessions(client), RedisIdempotency(client)
    users = [scope(tenant, f"u{n}", f"s{n}") for n in range(60)]
    for me in users:
        await opened(store, me)
        await store.append(me, [turn("a", me.user_id)], 10)
        await claims.claim(me, "k", "d", 30)
    for node in await client.nodes.masters():
        assert len(await node.redis.keys(f"strata:*{tenant}*")) > 60
    assert [contents((await store.load(me, 5)).turns) for me in users] == [[me.user_id] for me in users]
    assert [(await store.forget_user(me), await claims.forget_user(me)) for me in users] == [(1, 1)] * 60
    assert await kept(client, f"strata:*{tenant}*") == {}


async def test_a_slot_that_moved_is_followed(client, cluster, tenant):
    store = RedisSessions(client)
    me = await opened(store, scope(tenant))
    for n in range(3):  # there and back, with a map that is out of date each time
        await store.append(me, [turn(f"t{n}")], 10)
        move = await asyncio.to_thread(Move, cluster, SESSION % tenant)
        for step in (move.begin, move.move, move.end):
            await asyncio.to_thread(step)
    assert [t.id for t in (await store.load(me, 5)).turns] == ["t0", "t1", "t2"]
    (node,) = await client.nodes.serving([SESSION % tenant])
    assert node.port == move.target.port


@pytest.mark.parametrize("key", [SESSION, "strata:sessions:{%s:alice}:ttl"], ids=["session", "list"])
async def test_a_slot_that_is_moving_is_served_all_the_while(client, cluster, tenant, key):
    """Turns and state are written through every state of a move: keys here, keys there, keys on both sides. Nothing is refused and
    nothing is lost."""
    store = RedisSessions(client)
    me = await opened(store, scope(tenant))
    await store.append(me, [turn("first")], 10_000)
    done = asyncio.Event()

    async def write(worker):
        told = []
        while not done.is_set() or not told:
            (kept,) = await store.append(me, [turn(f"w{worker}n{len(told)}")], 10_000)
            told.append((kept.id, kept.seq))
            with contextlib.suppress(Conflict):
                await store.put_state(me, TaskState(intent="x"), (await store.state(me)).version)
        return told

    writers = [asyncio.create_task(write(worker)) for worker in range(4)]
    move = await asyncio.to_thread(Move, cluster, key % tenant)
    await asyncio.to_thread(move.begin)
    steps = 0
    while await asyncio.to_thread(move.move, 1):
        steps += 1
        await asyncio.sleep(0.05)  # for calls to meet the slot with its keys on both sides
    await asyncio.to_thread(move.end)
    await asyncio.sleep(0.05)
    done.set()
    told = dict(pair for pairs in await asyncio.gather(*writers) for pair in pairs)
    held = (await store.load(me, 10_000)).turns
    assert steps >= 3 and {t.id: t.seq for t in held if t.id != "first"} == told
    assert [t.seq for t in held] == list(range(1, len(held) + 1))


async def test_a_session_opened_in_a_moving_slot_is_there_when_it_has_moved(client, cluster, tenant):
    """Its keys are on neither side yet: the servers say "try again" until the move is over."""
    store = RedisSessions(client)
    await client.ping()
    move = await asyncio.to_thread(Move, cluster, SESSION % tenant)
    await asyncio.to_thread(move.begin)
    opening = asyncio.create_task(opened(store, scope(tenant)))
    await asyncio.sleep(0.3)
    assert not opening.done()
    await asyncio.to_thread(move.move)
    await asyncio.to_thread(move.end)
    me = await opening
    assert (await store.append(me, [turn("a")], 10))[0].seq == 1


async def test_a_dead_server_is_unavailable_and_found_again_when_it_is_back(cluster, tenant):
    client = SessionClient(cluster.url, deadline_s=2)
    store = RedisSessions(client)
    me = await opened(store, scope(tenant), ttl_s=600)
    await store.append(me, [turn("a")], 10)
    node = await asyncio.to_thread(cluster.node_of, SESSION % tenant)
    node.kill()
    with pytest.raises((Unavailable, DeadlineExceeded)) as error:
        await store.load(me, 5)
    assert error.value.args == ("sessions",)
    with pytest.raises((Unavailable, DeadlineExceeded)):
        await client.ping()
    await asyncio.to_thread(cluster.start)
    assert [t.id for t in (await store.load(me, 5)).turns] == ["a"]
    await client.ping()
    await client.aclose()


async def test_p36_cancelled_calls_leave_nothing_on_any_servers_connections(cluster, tenant):
    client = SessionClient(cluster.url, deadline_s=10, connections=2)
    store = RedisSessions(client)
    rng = random.Random(11)
    users = [await opened(store, scope(tenant, f"u{n}", f"s{n}")) for n in range(12)]
    for me in users:
        await store.append(me, [turn("mine", me.user_id)], 10)

    async def load(me):
        assert contents((await store.load(me, 5)).turns) == [me.user_id]

    async def listed(me):
        assert [s.user_id for s in (await store.page(me, 5, None)).items] == [me.user_id]

    cancelled = 0
    for _ in range(60):
        calls = [asyncio.create_task(rng.choice([load, listed])(rng.choice(users))) for _ in range(12)]
        await asyncio.sleep(rng.uniform(0, 0.004))
        for call in rng.sample(calls, 6):
            call.cancel()
        results = await asyncio.gather(*calls, return_exceptions=True)
        cancelled += sum(isinstance(r, asyncio.CancelledError) for r in results)
        assert [r for r in results if r is not None and not isinstance(r, asyncio.CancelledError)] == []
    assert cancelled > 30
    for me in users:
        await load(me)
    for node in await client.nodes.masters():
        assert node.calls == 0 and len(node.pool._in_use_connections) == 0
    await client.aclose()


async def test_one_node_of_the_url_that_lives_is_enough(cluster, tenant):
    dead = "127.0.0.1:1"
    client = SessionClient(cluster.url.replace("://", f"://{dead},"), deadline_s=10)
    await opened(RedisSessions(client), scope(tenant))
    await client.aclose()


async def test_a_server_that_is_no_cluster_is_unavailable(redis_server, tenant):
    client = SessionClient("redis+cluster://" + redis_server.removeprefix("redis://"))
    with pytest.raises(Unavailable):
        await client.ping()
    await client.aclose()
