"""The connections with the session tier, with a deadline on every call and nothing of the servers' words in an error."""

import asyncio
import hashlib
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import structlog
from redis.exceptions import (
    AskError,
    MovedError,
    NoScriptError,
    ReadOnlyError,
    RedisError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from memory.errors import DeadlineExceeded, Unavailable
from storage.sessions.address import Address, Kind, parse_url
from storage.sessions.cluster import ClusterNodes
from storage.sessions.nodes import Node, Nodes, SingleNode
from storage.sessions.sentinel import WatchedMaster

_WHAT = "sessions"
_ATTEMPTS = 3
_PAUSE_S = 0.02  # before the first repetition, doubled for the next, with jitter
_DETOURS = 500  # a slot that is being moved answers "try again" until it is there
_DETOUR_PAUSE_S = 0.1
_SCAN_STEP = 1000
_SCANS = 3

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class Call(NamedTuple):
    """One run of a script. Its keys are of one slot."""

    script: str
    keys: Sequence[str]
    args: Sequence[str | bytes | int] = ()


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What one server says of itself; "" where it doesn't."""

    version: str
    maxmemory_policy: str
    appendonly: bool
    replicas: int


@dataclass(slots=True)
class _Sending:
    """A call on its way: where it stands among the answers, and how it is to be sent."""

    place: int
    call: Call
    whole: bool = False  # the script's text instead of its name
    ask: tuple[str, int] | None = None  # a cluster's node that has been given part of the slot


class SessionClient:
    """The connections that sessions, claims and rates of one replica share: at most `connections` with each server.

    For `url` see storage.sessions.address. A call that is cancelled, or that misses its deadline, closes the connection that it
    was reading from, so that no later call can be given its reply (P36). Who serves what is asked for at the first call.
    """

    def __init__(self, url: str, *, deadline_s: float = 2.0, connections: int = 32) -> None:
        self.deadline_s = deadline_s
        self._connections = connections
        self.nodes = self._nodes_of(parse_url(url))
        self._scripts: dict[str, tuple[str, str]] = {}  # name -> SHA-1, text

    def _nodes_of(self, address: Address) -> Nodes:
        def make(host: str, port: int) -> Node:
            return Node(host, port, address.options, connections=self._connections, deadline_s=self.deadline_s)

        def make_sentinel(host: str, port: int) -> Node:
            return Node(host, port, address.sentinel_options, connections=1, deadline_s=self.deadline_s)

        match address.kind:
            case Kind.CLUSTER:
                return ClusterNodes(address, make)
            case Kind.SENTINEL:
                return WatchedMaster(address, make, make_sentinel)
        return SingleNode(address, make)

    def register(self, scripts: Mapping[str, str]) -> None:
        """Make scripts known by name. Nothing is sent: a server gets a script when it says that it lacks it."""
        for name, text in scripts.items():
            self._scripts[name] = (hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(), text)

    @asynccontextmanager
    async def deadline(self) -> AsyncIterator[None]:
        """Everything inside together gets the deadline. DeadlineExceeded or Unavailable("sessions") instead of what went wrong."""
        try:
            async with asyncio.timeout(self.deadline_s):
                yield
        except (TimeoutError, RedisTimeoutError):
            self.nodes.doubt()
            raise DeadlineExceeded(_WHAT) from None
        except (RedisError, OSError) as error:
            self.nodes.doubt()
            # A server's text may hold addresses, paths or a script's arguments: its class is what the log gets.
            _log.warning("session_store_error", error=type(error).__name__)
            raise Unavailable(_WHAT) from None

    async def run(self, *calls: Call, repeat: bool = False) -> list[Any]:
        """The calls' answers. One round trip, and calls on keys of one server in order; servers of a cluster are asked at once.
        With `repeat` (only for what may happen twice) a lost connection is tried again, at most twice, after a short random pause.
        Belongs inside `deadline`."""
        attempt = 1
        while True:
            try:
                return await self._once(calls)
            except RedisConnectionError:
                self.nodes.doubt()
                if not repeat or attempt == _ATTEMPTS:
                    raise
            await asyncio.sleep(random.uniform(0.5, 1.5) * _PAUSE_S * 2 ** (attempt - 1))  # noqa: S311
            attempt += 1

    async def _once(self, calls: Sequence[Call]) -> list[Any]:
        """Sends again what a server refused to run, to where it belongs: nothing of it has happened."""
        answers: list[Any] = [None] * len(calls)
        sendings = [_Sending(place, call) for place, call in enumerate(calls)]
        for detour in range(_DETOURS):
            refused, wait = [], False
            for sending, node, answer in await self._send(sendings):
                answers[sending.place] = answer
                if self._redirected(sending, node, answer):
                    refused.append(sending)
                    wait = wait or isinstance(answer, TryAgainError | ReadOnlyError)
            if not refused:
                break
            sendings = refused
            if wait or detour > 2:
                await asyncio.sleep(random.uniform(0.2, 1.0) * _DETOUR_PAUSE_S)  # noqa: S311
        for answer in answers:
            if isinstance(answer, RedisError):
                raise answer
        return answers

    def _redirected(self, sending: _Sending, node: Node, answer: Any) -> bool:
        """Whether the call was refused because something is elsewhere; then `sending` says how to go on."""
        if isinstance(answer, NoScriptError):  # a new or flushed server
            sending.whole = True
        elif isinstance(answer, MovedError | AskError) and isinstance(self.nodes, ClusterNodes):
            place = (answer.host or node.host, answer.port)
            sending.ask = place if not isinstance(answer, MovedError) else None
            if isinstance(answer, MovedError):
                self.nodes.moved(answer.slot_id, *place)
        elif isinstance(answer, TryAgainError):  # the script's keys are on two servers, until the slot has moved
            sending.ask = None
        elif isinstance(answer, ReadOnlyError) and isinstance(self.nodes, WatchedMaster):  # it has become a replica
            self.nodes.doubt()
        else:
            return False
        return True

    async def _send(self, sendings: Sequence[_Sending]) -> list[tuple[_Sending, Node, Any]]:
        nodes = await self.nodes.serving([sending.call.keys[0] for sending in sendings])
        shares: dict[Node, list[_Sending]] = defaultdict(list)
        for sending, node in zip(sendings, nodes, strict=True):
            if sending.ask is not None and isinstance(self.nodes, ClusterNodes):
                node = self.nodes.at(*sending.ask)
            shares[node].append(sending)
        if len(shares) == 1:
            ((node, share),) = shares.items()
            replies = [await self._send_to(node, share)]
        else:
            replies = await _all(self._send_to(*each) for each in shares.items())
        return [
            (sending, node, answer)
            for (node, share), reply in zip(shares.items(), replies, strict=True)
            for sending, answer in zip(share, reply, strict=True)
        ]

    async def _send_to(self, node: Node, share: Sequence[_Sending]) -> list[Any]:
        # A pipeline even for one call: its answers, errors among them, come back side by side. Not through the library's
        # Script objects, which ask SCRIPT EXISTS before every pipeline: a second round trip.
        pipeline = node.redis.pipeline(transaction=False)
        wanted = []
        for sending in share:
            if sending.ask is not None:
                pipeline.execute_command("ASKING")
            sha, text = self._scripts[sending.call.script]
            run, script = (pipeline.eval, text) if sending.whole else (pipeline.evalsha, sha)
            wanted.append(len(pipeline))
            run(script, len(sending.call.keys), *sending.call.keys, *sending.call.args)
        node.calls += 1
        try:
            answers = await pipeline.execute(raise_on_error=False)
        finally:
            node.calls -= 1
        return [answers[place] for place in wanted]

    async def scan(self, pattern: str) -> AsyncIterator[list[bytes]]:
        """Every key that matches and is there the whole time, some more than once, of every master, in bounded steps that have a
        deadline each. Where keys were moved between servers meanwhile all are looked at again."""
        for _ in range(_SCANS):
            async with self.deadline():
                masters, layout = await self.nodes.masters(), self.nodes.layout
            for node in masters:
                cursor = 0
                while True:
                    async with self.deadline():
                        cursor, keys = await node.redis.scan(cursor, match=pattern, count=_SCAN_STEP)
                    if keys:
                        yield keys
                    if cursor == 0:
                        break
            self.nodes.doubt()
            async with self.deadline():
                await self.nodes.masters()
            if self.nodes.layout == layout:
                return
        raise Unavailable(_WHAT)

    async def ping(self) -> None:
        """Every server that holds keys answers."""
        async with self.deadline():
            await _all(node.redis.ping() for node in await self.nodes.masters())

    async def facts(self) -> list[ServerFacts]:
        """Of every server that holds keys: what an operator's check looks at."""
        async with self.deadline():
            told = await _all(node.redis.info() for node in await self.nodes.masters())
        return [
            ServerFacts(
                version=str(about.get("valkey_version") or about.get("redis_version", "")),
                maxmemory_policy=str(about.get("maxmemory_policy", "")),
                appendonly=bool(about.get("aof_enabled")),
                replicas=int(about.get("connected_slaves", 0)),
            )
            for about in told
        ]

    async def aclose(self) -> None:
        await self.nodes.aclose()


async def _all(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """At once. All are waited for, so that none is left on its way when one fails."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]
