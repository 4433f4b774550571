"""The servers behind the session tier, and which of them serves a key."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from storage.sessions.address import Address

_ASK_S = 0.5


class Node:
    """One server and the connections with it. `host` is "" for a socket, whose path is among the options."""

    def __init__(self, host: str, port: int, options: dict[str, Any], *, connections: int, timeout_s: float) -> None:
        self.host, self.port = host, port
        self.calls = 0  # under way
        place = {"host": host, "port": port} if host else {}
        self.pool = BlockingConnectionPool(
            **(options | place),
            max_connections=connections,
            timeout=None,  # the call's own deadline ends the wait for a connection: late, not unavailable
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),  # the library would repeat writes as well; `run` repeats what may be repeated
            protocol=2,
        )
        self.redis: Any = Redis(connection_pool=self.pool)  # its commands' types hold for both of its ways to be used

    async def ask(self, *command: str) -> Any:
        """What it says of itself or of others; TimeoutError after half a second, so that the next one can be asked."""
        async with asyncio.timeout(_ASK_S):
            return await self.redis.execute_command(*command)

    async def aclose(self) -> None:
        await self.redis.aclose()
        await self.pool.aclose()


MakeNode = Callable[[str, int], Node]


class Nodes(Protocol):
    """The coroutines may ask servers, and belong inside a deadline."""

    async def serving(self, keys: Sequence[str]) -> list[Node]:
        """Each key's server, in order."""

    async def masters(self) -> list[Node]:
        """All that hold keys."""

    def doubt(self) -> None:
        """Something went wrong: look again who serves what, before the next call."""

    @property
    def layout(self) -> object:
        """Equal as long as every key is where it was."""

    async def aclose(self) -> None: ...


class SingleNode:
    """One server, always the same."""

    layout = None

    def __init__(self, address: Address, make: MakeNode) -> None:
        self.node = make(*(address.hosts[0] if address.hosts else ("", 0)))

    async def serving(self, keys: Sequence[str]) -> list[Node]:
        return [self.node] * len(keys)

    async def masters(self) -> list[Node]:
        return [self.node]

    def doubt(self) -> None:
        """There is nowhere else to look."""

    async def aclose(self) -> None:
        await self.node.aclose()
