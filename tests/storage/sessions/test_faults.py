"""The session tier when the wire or the server fails: deadlines, cut connections, cancelled requests, kills."""

import asyncio
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import time

import pytest

from memory.errors import Conflict, DeadlineExceeded, NotFound, Unavailable
from memory.scope import system_scope
from memory.turns import Role, TaskState
from storage.sessions import valkey_server
from storage.sessions.client import Call, SessionClient
from storage.sessions.idempotency import RedisIdempotency
from storage.sessions.rates import RequestRates
from storage.sessions.redis_store import RedisSessions
from tests.contract.session_backends import contents, every_server, opened, scope, server_of, session_of, turn
from tests.storage.sessions.proxy import Relay


@pytest.fixture
async def relay(valkey, home):
    async with Relay(valkey, home) as relay:
        yield relay


@pytest.fixture
async def behind(relay):
    """A client behind the relay, with a pool of two."""
    client = SessionClient(relay.url, deadline_s=10, connections=2)
    yield client
    await client.aclose()


@pytest.fixture
async def hasty(relay):
    """The same with a deadline of a second."""
    client = SessionClient(relay.url, deadline_s=1, connections=2)
    yield client
    await client.aclose()


def every_call(client, me):
    store, claims, rates = RedisSessions(client), RedisIdempotency(client), RequestRates(client)
    return {
        "open": lambda: store.open(me, session_of(me), 60, 10),
        "owner": lambda: store.owner(me),
        "get": lambda: store.get(me),
        "page": lambda: store.page(me, 10, None),
        "drop": lambda: store.drop(me),
        "append": lambda: store.append(me, [turn("a")], 10),
        "turns": lambda: store.turns(me, 10, None),
        "peek": lambda: store.peek(me, ["a"]),
        "load": lambda: store.load(me, 10),
        "replace_turn": lambda: store.replace_turn(me, "a", turn("a")),
        "remove_turn": lambda: store.remove_turn(me, None),
        "state": lambda: store.state(me),
        "put_state": lambda: store.put_state(me, TaskState(), 0),
        "set_preloaded": lambda: store.set_preloaded(me, ["m"]),
        "forget_user": lambda: store.forget_user(me),
        "count_user": lambda: store.count_user(me),
        "forget_tenant": lambda: store.forget_tenant(system_scope(me.tenant_id)),
        "count_tenant": lambda: store.count_tenant(system_scope(me.tenant_id)),
        "ping": lambda: store.ping(),
        "claim": lambda: claims.claim(me, "k", "d", 1),
        "finish": lambda: claims.finish(me, "k", "d", 200, b""),
        "release": lambda: claims.release(me, "k", "d"),
        "forget_claims": lambda: claims.forget_user(me),
        "count_claims": lambda: claims.count_user(me),
        "rates": lambda: rates.hit(me, 10),
    }


CALLS = sorted(every_call(SessionClient("redis://nowhere"), scope("t")))


async def test_a_silent_server_costs_the_deadline_and_no_more(relay, tenant):
    client = SessionClient(relay.url, deadline_s=1, connections=len(CALLS))
    await asyncio.gather(*(client.nodes.node.redis.ping() for _ in CALLS))
    relay.silent = True

    async def waited(call):
        start = time.monotonic()
        with pytest.raises(DeadlineExceeded) as error:
            await call()
        assert pickle.loads(pickle.dumps(error.value)).what == "sessions"
        return time.monotonic() - start

    calls = every_call(client, scope(tenant))
    waits = dict(zip(calls, await asyncio.gather(*map(waited, calls.values())), strict=True))
    # the upper bound is for a busy machine: without a deadline it would be for ever
    assert {name: wait for name, wait in waits.items() if not 0.9 < wait < 30} == {}
    await client.aclose()


@pytest.mark.parametrize("name", CALLS)
async def test_a_server_that_is_away_is_unavailable_and_its_words_stay_inside(relay, behind, tenant, name):
    await relay.refuse()
    with pytest.raises(Unavailable) as error:
        await every_call(behind, scope(tenant))[name]()
    assert error.value.args == ("sessions",)
    assert error.value.__cause__ is None and error.value.__suppress_context__
    assert "relay" not in error.value.detail


async def test_a_full_pool_waits_no_longer_than_the_deadline(relay, hasty, tenant):
    store = RedisSessions(hasty)
    await hasty.ping()
    relay.silent = True
    start = time.monotonic()
    results = await asyncio.gather(*(store.load(scope(tenant), 1) for _ in range(80)), return_exceptions=True)
    assert time.monotonic() - start < 25  # two after two would be 40 s
    assert {type(r) for r in results} == {DeadlineExceeded}
    relay.silent = False
    with pytest.raises(NotFound):  # and afterwards all is well
        await store.load(scope(tenant), 1)


async def test_it_goes_on_by_itself_when_the_server_is_back(relay, behind, tenant):
    store = RedisSessions(behind)
    me = await opened(store, scope(tenant))
    await relay.refuse()
    with pytest.raises(Unavailable):
        await store.load(me, 1)
    await relay.listen()
    assert (await store.load(me, 1)).turns == ()
    assert (await store.append(me, [turn("a")], 10))[0].seq == 1


async def test_a_cut_between_calls_is_not_noticed(relay, behind, tenant):
    store = RedisSessions(behind)
    me = await opened(store, scope(tenant))
    for n in range(20):
        relay.cut()
        await asyncio.sleep(0.005)
        assert (await store.append(me, [turn(f"t{n}")], 100))[0].seq == n + 1
        held = await store.state(me)
        await store.put_state(me, TaskState(intent=str(n)), held.version)


async def test_p34_a_cut_in_mid_append_stores_the_turns_once(relay, behind, tenant):
    """The answer is lost after the turns got in: the client tries again, and the turns know themselves by their ids."""
    store = RedisSessions(behind)
    me = await opened(store, scope(tenant))
    await store.append(me, [], 100)
    for n in range(10):
        relay.silent = True
        call = asyncio.create_task(store.append(me, [turn(f"q{n}"), turn(f"a{n}", role=Role.ASSISTANT)], 100))
        await relay.holding()
        assert not call.done()
        relay.cut()
        relay.silent = False
        assert [t.seq for t in await call] == [2 * n + 1, 2 * n + 2]
    assert (await store.get(me)).turn_count == 20


async def test_what_may_not_happen_twice_is_not_tried_twice(relay, behind, tenant):
    store = RedisSessions(behind)
    me = await opened(store, scope(tenant))
    await store.append(me, [turn("u1"), turn("u2"), turn("u3"), turn("u4")], 10)
    await store.remove_turn(me, None)  # the server has the script from here on
    relay.silent = True
    call = asyncio.create_task(store.remove_turn(me, None))
    await relay.holding()
    relay.cut()
    relay.silent = False
    with pytest.raises(Unavailable):
        await call
    assert [t.id for t in (await store.load(me, 10)).turns] == ["u1", "u2"]  # one was taken, not two


async def test_p36_a_cancelled_request_leaves_nothing_on_a_pooled_connection(relay, behind, tenant):
    """Several hundred cancelled calls over two connections, callers of two tenants: every later answer is its asker's own."""
    store = RedisSessions(behind)
    rng = random.Random(7)
    users = [await opened(store, scope(tenant + side, f"u{n}", f"s{n}")) for side in "ab" for n in range(5)]
    for me in users:
        await store.append(me, [turn("mine", f"{me.tenant_id}/{me.user_id}")], 10)
        await store.put_state(me, TaskState(intent=f"{me.tenant_id}/{me.user_id}"), 0)
    relay.delay_s = 0.004

    async def raw_pipeline(me):
        pipeline = behind.nodes.node.redis.pipeline(transaction=rng.random() < 0.5)
        for _ in range(5):
            pipeline.echo(me.user_id)
        assert await pipeline.execute() == [me.user_id.encode()] * 5

    async def raw_command(me):
        assert await behind.nodes.node.redis.echo(me.tenant_id) == me.tenant_id.encode()

    async def load(me):
        snapshot = await store.load(me, 5)
        assert contents(snapshot.turns) == [f"{me.tenant_id}/{me.user_id}"] == [snapshot.state.intent]

    async def many(me):
        page = await store.page(me, 5, None)
        assert [s.user_id for s in page.items] == [me.user_id]

    cancelled = answered = 0

    async def one(kind, me, cut_after):
        nonlocal cancelled, answered
        call = asyncio.create_task(kind(me))
        if cut_after is not None:
            await asyncio.sleep(cut_after)
            call.cancel()
        try:
            await call
            answered += 1
        except asyncio.CancelledError:
            cancelled += 1

    kinds = [raw_pipeline, raw_command, load, many]
    for _ in range(60):
        await asyncio.gather(
            *(one(rng.choice(kinds), rng.choice(users), rng.choice([None, rng.uniform(0, 0.03)])) for _ in range(12))
        )
    assert cancelled > 100 and answered > 100
    relay.delay_s = 0
    for me in users * 20:
        await one(rng.choice(kinds), me, None)
    # and the pool is whole: two calls at once get a connection each
    await asyncio.wait_for(asyncio.gather(*(behind.nodes.node.redis.client_id() for _ in range(2))), 30)
    assert len(behind.nodes.node.pool._in_use_connections) == 0
    assert len(behind.nodes.node.pool._available_connections) <= 2


async def test_p36_a_missed_deadline_leaves_nothing_either(relay, hasty, tenant):
    store = RedisSessions(hasty)
    one, other = await opened(store, scope(tenant)), await opened(store, scope(tenant, "bob", "s2"))
    await store.append(one, [turn("a", "alice's")], 10)
    await store.append(other, [turn("a", "bob's")], 10)
    relay.silent = True
    results = await asyncio.gather(*(store.load(one, 5) for _ in range(4)), return_exceptions=True)
    assert {type(r) for r in results} == {DeadlineExceeded}
    relay.silent = False
    for _ in range(20):
        assert contents((await store.load(other, 5)).turns) == ["bob's"]


async def test_a_flushed_script_cache_is_filled_again(session_client, sessions, tenant):
    me = await opened(sessions, scope(tenant))
    for n in range(3):
        for server in await every_server(session_client):
            await server.script_flush()
        assert (await sessions.append(me, [turn(f"t{n}")], 10))[0].seq == n + 1
    for server in await every_server(session_client):
        await server.script_flush()
    with pytest.raises(Conflict):
        await sessions.put_state(me, TaskState(), 4)


async def test_the_hot_path_reads_in_one_round_trip(relay, tenant):
    client = SessionClient(relay.url, deadline_s=5, connections=1)
    store = RedisSessions(client)
    me = await opened(store, scope(tenant))
    await store.append(me, [turn(f"t{n}") for n in range(50)], 100)
    await store.load(me, 20)
    before = relay.pieces
    await store.load(me, 20)
    await store.append(me, [turn("next")], 100)
    assert relay.pieces - before == 2
    await client.aclose()


async def test_a_full_memory_is_unavailable_and_says_nothing_of_the_server(home, tenant):
    url = valkey_server.ensure_running(home)
    client = SessionClient(url)
    store = RedisSessions(client)
    me = await opened(store, scope(tenant))
    await client.nodes.node.redis.config_set("maxmemory", 1)
    with pytest.raises(Unavailable) as error:
        await store.append(me, [turn("a")], 10)
    assert error.value.args == ("sessions",)
    await client.nodes.node.redis.config_set("maxmemory", 0)
    assert (await store.append(me, [turn("a")], 10))[0].seq == 1
    await client.aclose()


async def test_what_a_newer_version_added_is_passed_over(session_client, sessions, tenant):
    me = await opened(sessions, scope(tenant))
    await sessions.append(me, [turn("a", "one")], 10)
    await sessions.put_state(me, TaskState(intent="x"), 0)
    meta = f"strata:session:{{{tenant}:s1}}:user:alice:meta"
    turns = f"strata:session:{{{tenant}:s1}}:user:alice:turns"
    r = await server_of(session_client, meta)
    body = json.loads(await r.hget(turns, "a"))
    await r.hset(turns, "a", json.dumps({**body, "new": {"deep": 1}, "k": [["c", "f", "{}", "extra"]]}))
    await r.hset(meta, mapping={"new": "1", "state": json.dumps({"intent": "x", "new": []})})
    snapshot = await sessions.load(me, 10)
    assert contents(snapshot.turns) == ["one"] and snapshot.turns[0].tool_calls[0].name == "f"
    assert snapshot.state == TaskState(version=1, intent="x")


async def test_a_damaged_value_is_an_error_without_the_value(session_client, sessions, tenant):
    me = await opened(sessions, scope(tenant))
    await sessions.append(me, [turn("a", "one")], 10)
    turns = f"strata:session:{{{tenant}:s1}}:user:alice:turns"
    server = await server_of(session_client, turns)
    for damage in (b"not json", b'{"r":"critic","c":"secret","t":1,"a":1}', b'{"r":"user"}', b"[]"):
        await server.hset(turns, "a", damage)
        with pytest.raises(Unavailable) as error:
            await sessions.load(me, 10)
        assert error.value.args == ("sessions",)


WRITER = """
import asyncio, sys
from storage.sessions.client import SessionClient
from storage.sessions.redis_store import RedisSessions
from tests.contract.session_backends import scope, turn

async def main(url, tenant, name, count):
    client = SessionClient(url, deadline_s=10)
    store = RedisSessions(client)
    me = scope(tenant)
    async def write(w):
        for n in range(count):
            (kept,) = await store.append(me, [turn(f"{name}{w}n{n}", f"{name}{w}:{n}")], 10_000)
            print(kept.id, kept.seq, flush=True)
    print("ready", flush=True)
    sys.stdin.readline()
    await asyncio.gather(*(write(w) for w in range(5)))
    await client.aclose()

asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
"""


def writers(url, tenant, count, names="pq"):
    made = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, url, tenant, name, str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    for process in made:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
    for process in made:
        process.stdin.write("go\n")
        process.stdin.flush()
    return made


async def test_p35_two_processes_writing_one_session_lose_nothing(session_url, sessions, tenant):
    me = await opened(sessions, scope(tenant))
    processes = writers(session_url, tenant, 40)
    outputs = [(await asyncio.to_thread(p.communicate, timeout=60))[0] for p in processes]
    told = {line.split()[0]: int(line.split()[1]) for out in outputs for line in out.splitlines()}
    assert len(told) == 400 and sorted(told.values()) == list(range(1, 401))
    held = (await sessions.turns(me, 1000, None)).items
    assert {t.id: t.seq for t in held} == told
    for writer in {t.content.split(":")[0] for t in held}:
        assert [int(t.content.split(":")[1]) for t in held if t.content.startswith(f"{writer}:")] == list(range(40))


async def test_a_killed_writer_leaves_whole_turns_and_a_session_that_goes_on(session_url, sessions, tenant):
    me = await opened(sessions, scope(tenant))
    (process,) = writers(session_url, tenant, 5000, "p")
    for _ in range(50):
        process.stdout.readline()
    process.kill()
    told = [line.split() for line in process.communicate()[0].splitlines() if len(line.split()) == 2]
    held = (await sessions.load(me, 10_000)).turns
    assert [t.seq for t in held] == list(range(1, len(held) + 1))
    by_id = {t.id: t.seq for t in held}
    assert all(by_id[name] == int(seq) for name, seq in told[:-1])  # whatever was acknowledged is there
    assert (await sessions.append(me, [turn("next")], 20_000))[0].seq == len(held) + 1


async def test_a_stopped_server_keeps_every_session_and_the_same_client_goes_on(home, tenant):
    url = valkey_server.ensure_running(home)
    client = SessionClient(url, deadline_s=10)
    store = RedisSessions(client)
    me = await opened(store, scope(tenant), ttl_s=600)
    stored = await store.append(me, [turn(f"t{n}", f"第{n}句") for n in range(20)], 100)
    await store.put_state(me, TaskState(intent="buy"), 0)
    before = await store.load(me, 100)
    assert await asyncio.to_thread(valkey_server.stop, home)
    with pytest.raises(Unavailable):
        await store.load(me, 1)
    assert await asyncio.to_thread(valkey_server.ensure_running, home) == url
    after = await store.load(me, 100)
    assert after.turns == before.turns == stored
    assert after.state == before.state
    await client.aclose()


async def test_a_killed_server_keeps_what_is_a_second_old(home, tenant):
    """appendfsync everysec."""
    url = valkey_server.ensure_running(home)
    client = SessionClient(url, deadline_s=10)
    store = RedisSessions(client)
    me = await opened(store, scope(tenant), ttl_s=600)
    stored = await store.append(me, [turn(f"t{n}") for n in range(20)], 100)
    await client.nodes.node.redis.execute_command("WAITAOF", 1, 0, 3000)
    os.kill((await client.nodes.node.redis.info("server"))["process_id"], signal.SIGKILL)
    await asyncio.to_thread(valkey_server.ensure_running, home)
    assert (await store.load(me, 100)).turns == stored
    await client.aclose()


async def test_calls_of_one_round_trip_that_lack_their_scripts_are_run_once(session_client, tenant):
    session_client.register({"count": "return redis.call('INCR', KEYS[1])"})
    key = f"strata:test:{{{tenant}}}"
    server = await server_of(session_client, key)
    await server.script_flush()
    assert await session_client.run(Call("count", (key,)), Call("count", (key,))) == [1, 2]
    await server.delete(key)
