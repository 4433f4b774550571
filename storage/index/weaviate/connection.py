"""The way to one Weaviate cluster: one client per replica, our own deadline around every call, no text of the server's let out.

The client retries by itself for a minute, and its channel waits ever longer before it connects again; so each call here ends at
its own deadline, or as soon as the channel is known to be down, and the channel tries again at once.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum, auto
from typing import Any, TypeVar
from urllib.parse import urlsplit

import grpc
import httpx
from weaviate import WeaviateAsyncClient
from weaviate.auth import AuthApiKey
from weaviate.config import AdditionalConfig, GrpcConfig, Timeout
from weaviate.connect import ConnectionParams
from weaviate.exceptions import (
    UnexpectedStatusCodeError,
    WeaviateBaseError,
    WeaviateTimeoutError,
)

from memory.errors import ConfigError, DeadlineExceeded, NotFound, StrataError, Unavailable
from storage.index.weaviate.settings import WeaviateSettings

T = TypeVar("T")

NAME = "index"
_LOOK_S = 0.2
"""How soon a call notices that the channel is down, instead of waiting for its deadline."""
_SERVER_S = 60.0
"""The client's own limits: wider than any of ours, so that ours are the ones that count."""
_CHANNEL = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # despite its name how long one attempt may take: TCP, TLS and the first answer, also on a machine that is busy
    ("grpc.min_reconnect_backoff_ms", 5_000),
    # a peer that vanished without a word: unacknowledged bytes close the connection after the timeout. The server allows no
    # ping more often than every five minutes.
    ("grpc.keepalive_time_ms", 310_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
]
_DOWN = (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN)
_NO_PARTITION = (
    "tenant not found",
    "not present in schema",
    "could not find class",
    "class not found",
    "non-existing index",
    "shard not found",
)
_ASLEEP = ("tenant not active", "already shut or dropped")
_WAKING_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
"""Pauses before a call meets a partition again that was falling asleep: a large one takes a second to."""

# it logs the server's answers, which name paths and may quote what was sent
logging.getLogger("weaviate-client").setLevel(logging.CRITICAL)


async def each(works: Iterable[Callable[[], Awaitable[T]]], at_once: int) -> list[T]:
    """All of `works`, so many at once, in order. The first error ends the others and is raised as it is."""
    gate = asyncio.Semaphore(at_once)

    async def run(work: Callable[[], Awaitable[T]]) -> T:
        async with gate:
            return await work()

    tasks = [asyncio.create_task(run(work)) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


class Meaning(Enum):
    """What an error of the client's says."""

    NO_PARTITION = auto()  # no such tenant or collection
    ASLEEP = auto()  # falling asleep just now; the same call again wakes it
    FORBIDDEN = auto()
    OTHER = auto()  # away, too few replicas, out of files or disk: not now


class Asleep(Exception):
    """ASLEEP where the server said it in an answer, not as an error."""


def meaning(error: Exception) -> Meaning:
    """By the server's words, which go no further."""
    return meaning_of(str(error), getattr(error, "status_code", None))


def meaning_of(text: str, status: int | None = None) -> Meaning:
    lowered = text.lower()
    if status in (401, 403) or "unauthorized" in lowered or "forbidden" in lowered:
        return Meaning.FORBIDDEN
    if any(words in lowered for words in _NO_PARTITION):
        return Meaning.NO_PARTITION
    if any(words in lowered for words in _ASLEEP):
        return Meaning.ASLEEP
    return Meaning.OTHER


def or_not_found(work: Callable[[WeaviateAsyncClient], Awaitable[T]]) -> Callable[[WeaviateAsyncClient], Awaitable[T]]:
    """`work`, with NotFound("partition") where there is no such tenant or collection."""

    async def run(client: WeaviateAsyncClient) -> T:
        try:
            return await work(client)
        except WeaviateBaseError as error:
            if meaning(error) is Meaning.NO_PARTITION:
                raise NotFound("partition") from None
            raise

    return run


def _parameters(settings: WeaviateSettings) -> ConnectionParams:
    url = urlsplit(settings.http)
    if url.scheme not in ("http", "https") or not url.hostname or url.path not in ("", "/") or url.query:
        raise ConfigError("index.http", "use an address such as http://weaviate:8080, without a path")
    host, _, port = settings.grpc.rpartition(":")
    if not host or not port.isdecimal():
        raise ConfigError("index.grpc", "use host:port, such as weaviate-grpc:50051")
    try:
        return ConnectionParams.from_params(
            http_host=url.hostname,
            http_port=url.port or (443 if url.scheme == "https" else 80),
            http_secure=url.scheme == "https",
            grpc_host=host.strip("[]"),
            grpc_port=int(port),
            grpc_secure=settings.grpc_tls,
        )
    except ValueError:
        raise ConfigError("index.http", "and index.grpc must be two ports between 1 and 65535") from None


class Connection:
    """Connects at the first call, inside the process that calls (never before a fork), once."""

    def __init__(self, settings: WeaviateSettings, api_key: str | None, deadline_s: float) -> None:
        self._parameters = _parameters(settings)
        self._api_key, self._deadline_s = api_key, deadline_s
        self._rest_url = f"{settings.http.rstrip('/')}/v1"
        self._lock = asyncio.Lock()
        self._client: WeaviateAsyncClient | None = None
        self._rest: httpx.AsyncClient | None = None
        self._pid = 0
        self._closed = False

    async def run(self, work: Callable[[WeaviateAsyncClient], Awaitable[T]], deadline_s: float | None = None) -> T:
        """`work` with the connected client, within `deadline_s`. What it raises of ours goes on, all else becomes Unavailable or
        DeadlineExceeded; where it meets a partition that falls asleep it runs again."""
        if self._closed:
            raise Unavailable(NAME)
        try:
            async with asyncio.timeout(deadline_s or self._deadline_s) as limit:
                client = await self._connected()
                watch = _Watch(client, limit)
                try:
                    return await _awake(work, client)
                finally:
                    watch.stop()
        except TimeoutError:
            if self._client is not None and _state(self._client) is not grpc.ChannelConnectivity.READY:
                raise Unavailable(NAME) from None
            raise DeadlineExceeded(NAME) from None
        except StrataError:
            raise
        except (httpx.TimeoutException, WeaviateTimeoutError):
            raise DeadlineExceeded(NAME) from None
        except (WeaviateBaseError, httpx.HTTPError, grpc.RpcError, OSError, Asleep):
            raise Unavailable(NAME) from None

    async def get(self, path: str, params: dict[str, Any] | None = None) -> httpx.Response:
        """A REST read that the client has no call for. Inside of `run`. Any status is an answer."""
        if self._rest is None:
            headers = {} if self._api_key is None else {"authorization": f"Bearer {self._api_key}"}
            self._rest = httpx.AsyncClient(headers=headers, timeout=_SERVER_S, trust_env=False)
        return await self._rest.get(self._rest_url + path, params=params)

    async def get_json(self, path: str) -> dict[str, Any]:
        """The same where there must be an answer: Unavailable for any but 200. ConfigError where the key is refused."""
        answer = await self.get(path)
        if answer.status_code in (401, 403):
            raise _refused_key()
        try:
            body = answer.json() if answer.status_code == 200 else None
        except ValueError:  # not a Weaviate that answers there
            body = None
        if not isinstance(body, dict):
            raise Unavailable(NAME)
        return body

    async def aclose(self) -> None:
        """Idempotent; no call works afterwards."""
        self._closed = True
        client, self._client = self._client, None
        rest, self._rest = self._rest, None
        if client is not None:
            await client.close()
        if rest is not None:
            await rest.aclose()

    async def _connected(self) -> WeaviateAsyncClient:
        if self._client is None or self._pid != os.getpid():
            async with self._lock:
                if self._client is None or self._pid != os.getpid():
                    self._client, self._pid, self._rest = await self._connect(), os.getpid(), None
        if _state(self._client) in _DOWN:
            # known to be down: it reconnects by itself, at most a second after the server is back
            raise Unavailable(NAME)
        return self._client

    async def _connect(self) -> WeaviateAsyncClient:
        limits = Timeout(query=_SERVER_S, insert=_SERVER_S, init=_SERVER_S)
        client = WeaviateAsyncClient(
            self._parameters,
            auth_client_secret=None if self._api_key is None else AuthApiKey(self._api_key),
            additional_config=AdditionalConfig(timeout=limits, grpc_config=GrpcConfig(channel_options=_CHANNEL)),
            skip_init_checks=True,  # they would also ask the package index for the newest client
        )
        try:
            await client.connect()
        except BaseException as error:
            await client.close()
            if isinstance(error, UnexpectedStatusCodeError) and meaning(error) is Meaning.FORBIDDEN:
                raise _refused_key() from None
            raise
        return client


async def _awake(work: Callable[[WeaviateAsyncClient], Awaitable[T]], client: WeaviateAsyncClient) -> T:
    for pause_s in _WAKING_S:
        try:
            return await work(client)
        except Asleep:
            pass
        except WeaviateBaseError as error:
            if meaning(error) is not Meaning.ASLEEP:
                raise
        await asyncio.sleep(pause_s)
    return await work(client)


def _refused_key() -> ConfigError:
    return ConfigError("index.api_key", "the Weaviate server refuses it; set the key of a user with full access")


def _state(client: WeaviateAsyncClient) -> grpc.ChannelConnectivity:
    channel = client._connection._grpc_channel  # the client has no public way to ask
    return grpc.ChannelConnectivity.SHUTDOWN if channel is None else channel.get_state(try_to_connect=True)


class _Watch:
    """Ends a call as soon as its channel is down: the client would sleep and try again until the deadline."""

    def __init__(self, client: WeaviateAsyncClient, limit: asyncio.Timeout) -> None:
        self._client, self._limit, self._loop = client, limit, asyncio.get_running_loop()
        self._timer = self._loop.call_later(_LOOK_S, self._look)

    def _look(self) -> None:
        if _state(self._client) in _DOWN:
            self._limit.reschedule(self._loop.time())
        else:
            self._timer = self._loop.call_later(_LOOK_S, self._look)

    def stop(self) -> None:
        self._timer.cancel()
