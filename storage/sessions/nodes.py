"""The servers behind the session tier, and which of them serves a key."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from storage.sessions.address import Address


class Pool(ConnectionPool):
    """A bounded pool whose callers wait, and may be cancelled at any moment, without a connection or a wake-up being lost.

    The library's own pool that waits loses both now and then: giving a connection back awaits a lock, and asyncio's Condition (until
    Python 3.13) forgets whom it woke if he is cancelled just then. Here giving back is one step, and a semaphore passes turns on.
    How long a call waits for its turn is its own deadline's business.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._turns = asyncio.Semaphore(self.max_connections)

    async def get_connection(self, command_name: Any = None, *keys: Any, **options: Any) -> AbstractConnection:
        await self._turns.acquire()
        make: Any = self.get_available_connection
        try:
            connection: AbstractConnection = make()
        except BaseException:
            self._turns.release()
            raise
        try:
            await self.ensure_connection(connection)
            return connection
        except BaseException:
            try:
                await connection.disconnect(nowait=True)  # whatever its handshake has come to
            finally:
                self._back(connection)
            raise

    async def release(self, connection: AbstractConnection) -> None:
        self._back(connection)

    def _back(self, connection: AbstractConnection) -> None:
        self._in_use_connections.discard(connection)
        self._available_connections.append(connection)
        self._turns.release()


class Node:
    """One server and the connections with it. `host` is "" for a socket, whose path is among the options."""

    def __init__(self, host: str, port: int, options: dict[str, Any], *, connections: int, deadline_s: float) -> None:
        self.host, self.port = host, port
        self.calls = 0  # under way
        self._ask_s = deadline_s / 4
        place = {"host": host, "port": port} if host else {}
        self.pool = Pool(
            **(options | place),
            max_connections=connections,
            # The call's own deadline is the only clock. With one of its own the library waits by asyncio.wait_for, which (until Python
            # 3.12) swallows a cancellation, and so the deadline, that comes in the moment of success.
            socket_timeout=None,
            socket_connect_timeout=None,
            retry=Retry(NoBackoff(), 0),  # the library would repeat writes as well; `run` repeats what may be repeated
            protocol=2,
        )
        self.redis: Any = Redis(connection_pool=self.pool)  # its commands' types hold for both of its ways to be used

    async def ask(self, *command: str) -> Any:
        """What it says of itself or of others; TimeoutError in good time for the next one to be asked."""
        async with asyncio.timeout(self._ask_s):
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
