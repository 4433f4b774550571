"""One connection, deadlines of our own, and no word of the server's: whatever becomes of the server."""

import asyncio
import logging
import os
import socket
import time

import pytest

from memory.errors import ConfigError, DeadlineExceeded, StrataError, Unavailable
from storage.index.weaviate.connection import Meaning, meaning_of
from storage.index.weaviate.index import WeaviateIndex
from tests.contract.index_backends import asking, ids_of, scope, sealed, unit
from tests.storage.index.weaviate.backends import MODEL, opened, settings_of
from tests.storage.index.weaviate.relay import way_to

pytestmark = pytest.mark.asyncio

NEVER_S = 30
"""Far below the minute that the client waits by itself, far above anything that a slow machine needs."""


def everything(index: WeaviateIndex):
    """Each kind of call, over each of both protocols."""
    (vector,) = unit(1)
    return {
        "search": lambda: index.search(scope(), asking(vector, "tea"), 5, 5),
        "upsert": lambda: index.upsert(scope(), [sealed("m1", vector, "tea")]),
        "remove": lambda: index.remove(scope(), ["m1"]),
        "remaining": lambda: index.remaining(scope(), ["m1"]),
        "walk": lambda: index.walk(scope(), None, 5),
        "count": lambda: index.count(scope(), None),
        "ping": lambda: index.ping(),
    }


async def refused(call) -> StrataError:
    began = time.monotonic()
    with pytest.raises(StrataError) as error:
        await call()
    assert time.monotonic() - began < NEVER_S
    assert error.value.args == ("index",)  # our name for it, and nothing that the server said
    return error.value


@pytest.mark.parametrize(
    ("text", "status", "meant"),
    [
        ('tenant not found: "nope"', None, Meaning.NO_PARTITION),
        ("class 'X' not present in schema", None, Meaning.NO_PARTITION),
        ("could not find class X in schema", None, Meaning.NO_PARTITION),
        ("updating schema: TYPE_DELETE_TENANT: class not found", 422, Meaning.NO_PARTITION),
        ("delete from non-existing index for X", 500, Meaning.NO_PARTITION),
        ("tenant not active: 'x'", 422, Meaning.ASLEEP),
        ('get/init local shard "x", no shutdown: already shut or dropped', None, Meaning.ASLEEP),
        ("whatever", 401, Meaning.FORBIDDEN),
        ("whatever", 403, Meaning.FORBIDDEN),
        ("too many open files", 500, Meaning.OTHER),
        ("cannot reach enough replicas: required 3 replicas, got 2", 500, Meaning.OTHER),
        ("leader not found", 500, Meaning.OTHER),
    ],
)
async def test_what_an_error_of_the_servers_means(text, status, meant):
    assert meaning_of(text, status) is meant


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({"http": "weaviate:8080"}, "index.http"),
        ({"http": "ftp://weaviate"}, "index.http"),
        ({"http": "http://weaviate:8080/path"}, "index.http"),
        ({"http": "http://"}, "index.http"),
        ({"grpc": "weaviate"}, "index.grpc"),
        ({"grpc": ":50051"}, "index.grpc"),
        ({"grpc": "weaviate:grpc"}, "index.grpc"),
        ({"http": "http://weaviate:8080", "grpc": "weaviate:8080"}, "index.http"),
        ({"grpc": "weaviate:99999"}, "index.http"),
    ],
)
async def test_an_address_that_is_none_is_named(changes, setting):
    about = settings_of("http://127.0.0.1:1,2").model_copy(update=changes)
    with pytest.raises(ConfigError) as error:
        WeaviateIndex(about, None, MODEL, 32)
    assert error.value.where == setting


@pytest.mark.parametrize("model_key", ["", "a-b", "a/b", "模型", "a" * 101])
async def test_a_model_key_that_can_name_no_collection_is_refused(model_key):
    with pytest.raises(ConfigError):
        WeaviateIndex(settings_of("http://127.0.0.1:1,2"), None, model_key, 32)


async def test_nobody_there():
    with socket.socket() as one, socket.socket() as two:
        for taken in (one, two):
            taken.bind(("127.0.0.1", 0))  # taken, and nobody listens
        address = f"http://127.0.0.1:{one.getsockname()[1]},{two.getsockname()[1]}"
        async with opened(settings_of(address)) as index:
            for call in everything(index).values():
                assert isinstance(await refused(call), Unavailable)
            assert isinstance(await refused(index.check), Unavailable)


async def test_somebody_who_never_answers():
    with socket.socket() as one, socket.socket() as two:
        for silent in (one, two):
            silent.bind(("127.0.0.1", 0))
            silent.listen(64)
        address = f"http://127.0.0.1:{one.getsockname()[1]},{two.getsockname()[1]}"
        async with opened(settings_of(address), deadline_s=0.5) as index:
            for call in everything(index).values():
                await refused(call)


async def test_twenty_first_calls_at_once_make_one_connection(weaviate, settings):
    async with way_to(weaviate) as way, opened(settings_of(way.address, collection=settings.collection)) as index:
        await asyncio.gather(*(index.search(scope(), asking(unit(1)[0]), 5, 0) for _ in range(20)))
        assert way.grpc.accepted == 1


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="known to Linux alone")
async def test_a_peer_that_vanished_without_a_word_is_given_up(weaviate, settings):
    """No reset comes from a machine that lost its power: the kernel ends the connection when bytes stay unacknowledged."""
    async with way_to(weaviate) as way, opened(settings_of(way.address, collection=settings.collection)) as index:
        await index.search(scope(), asking(unit(1)[0]), 5, 0)
        limits = []
        for fd in os.listdir("/proc/self/fd"):
            try:
                with socket.socket(fileno=os.dup(int(fd))) as one:
                    if one.getpeername()[1:2] == (way.grpc.port,):
                        limits.append(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))
            except OSError:
                continue  # no socket, or none that is connected
        assert limits == [5_000]


async def test_gone_and_back_without_a_restart(weaviate, settings):
    """Each call ends as soon as the server is known to be gone; every kind of call works again once it is back."""
    async with (
        way_to(weaviate) as way,
        opened(settings_of(way.address, collection=settings.collection), deadline_s=10.0) as index,
    ):
        await index.ensure_tenant(scope())
        calls = everything(index)
        for call in calls.values():
            await call()
        await way.cut()
        for call in calls.values():
            assert isinstance(await refused(call), Unavailable)
        await way.open()
        await _back(calls)
        assert await ids_of(index, scope()) == []  # `remove` came last


async def _back(calls) -> None:
    began = time.monotonic()
    for call in calls.values():
        while True:
            try:
                await call()
                break
            except StrataError:
                assert time.monotonic() - began < NEVER_S
                await asyncio.sleep(0.05)


async def test_stalled_and_going_on(weaviate, settings):
    async with (
        way_to(weaviate) as way,
        opened(settings_of(way.address, collection=settings.collection), deadline_s=20.0) as index,
        opened(settings_of(way.address, collection=settings.collection), deadline_s=1.0) as hasty,
    ):
        await index.ensure_tenant(scope())
        calls = everything(hasty)
        await _back({"search": calls["search"]})  # connected
        way.stall()
        for name in ("search", "upsert", "ping"):
            assert isinstance(await refused(calls[name]), DeadlineExceeded), name
        way.flow()
        await _back(everything(index))


async def test_a_call_that_is_cancelled_leaves_nothing_behind(weaviate, settings):
    """P36: the next caller gets his own answer."""
    vectors = unit(40)
    async with opened(settings) as index:
        await index.ensure_tenant(scope())
        await index.upsert(scope(), [sealed(f"m{n}", vectors[n], "tea", user=f"u_{n}") for n in range(40)])

        async def asked(n: int) -> None:
            (hit,) = await index.search(scope(), asking(vectors[n], "tea", user=f"u_{n}"), 5, 5)
            assert hit.id == f"m{n}"

        for n in range(40):
            cut = asyncio.create_task(asked(n))
            await asyncio.sleep(0.0005 * (n % 5))
            cut.cancel()
            await asked((n + 1) % 40)
            await asyncio.gather(cut, return_exceptions=True)


async def test_what_the_server_says_reaches_no_log(settings, caplog):
    caplog.set_level(logging.DEBUG)
    async with opened(settings) as index:
        await index.ensure_tenant(scope())
        (vector,) = unit(1)
        with pytest.raises(StrataError):
            await index.upsert(scope(tenant="nobody"), [sealed("m1", vector, "marzipan")])
    said = " ".join(record.getMessage() for record in caplog.records)
    assert "tenant not found" not in said and "marzipan" not in said


async def test_after_the_end_nothing_is_asked(settings):
    async with opened(settings) as index:
        await index.ensure_tenant(scope())
    assert isinstance(await refused(lambda: index.count(scope(), None)), Unavailable)
    await index.aclose()
