"""The master under Sentinel: asked for at the first call and whenever there is doubt, so that a failover needs no restart.

Replication is asynchronous: what the old master acknowledged and had not yet passed on is lost with it.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from storage.sessions.address import Address
from storage.sessions.nodes import MakeNode, Node


class WatchedMaster:
    """All calls go to the master: what a replica answers may be old, and every read of a session renews it."""

    def __init__(self, address: Address, make: MakeNode, make_sentinel: MakeNode) -> None:
        self._service = address.service
        self._make = make
        self._sentinels = [make_sentinel(host, port) for host, port in address.hosts]
        self.master: Node | None = None
        self._sure = False
        self._looking = asyncio.Lock()

    async def serving(self, keys: Sequence[str]) -> list[Node]:
        return [await self._found()] * len(keys)

    async def masters(self) -> list[Node]:
        return [await self._found()]

    def doubt(self) -> None:
        self._sure = False

    @property
    def layout(self) -> object:
        return self.master and (self.master.host, self.master.port)

    async def aclose(self) -> None:
        for node in (*self._sentinels, *([self.master] if self.master else [])):
            await node.aclose()

    async def _found(self) -> Node:
        if self.master is not None and self._sure:
            return self.master
        async with self._looking:  # many callers notice a failover at once: one asks
            if self.master is None or not self._sure:
                await self._look()
        assert self.master is not None
        return self.master

    async def _look(self) -> None:
        """The newest answer whose server says itself that it is a master: a sentinel that was cut off tells of the past."""
        for host, port in await self._named():
            known = self.master
            same = known is not None and (known.host, known.port) == (host, port)
            node = known if known is not None and same else self._make(host, port)
            try:
                if (await node.ask("ROLE"))[0] not in (b"master", "master"):
                    raise RedisConnectionError
            except BaseException as error:
                if not same:
                    await node.aclose()
                if isinstance(error, RedisError | OSError | TimeoutError):
                    continue
                raise
            self.master, self._sure = node, True
            if known is not None and not same:
                await known.aclose()  # whoever still waits there waits for a server that is master no more
            return
        raise RedisConnectionError

    async def _named(self) -> list[tuple[str, int]]:
        """What the sentinels say, the latest election first. A majority is waited for, no longer."""
        asked = [asyncio.create_task(self._ask(sentinel)) for sentinel in self._sentinels]
        told: dict[tuple[str, int], int] = {}
        answered = 0
        try:
            for answer in asyncio.as_completed(asked):
                place, epoch = await answer or (None, 0)
                if place is not None:
                    told[place] = max(epoch, told.get(place, 0))
                    answered += 1
                if answered > len(asked) // 2:
                    break
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        return sorted(told, key=lambda place: -told[place])

    async def _ask(self, sentinel: Node) -> tuple[tuple[str, int], int] | None:
        try:
            reply = await sentinel.ask("SENTINEL", "MASTER", self._service)
        except (RedisError, OSError, TimeoutError):
            return None
        about: dict[Any, Any] = reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))
        text = {_text(name): _text(value) for name, value in about.items()}
        return (text["ip"], int(text["port"])), int(text.get("config-epoch", 0))


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
