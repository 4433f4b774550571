"""A cluster: which master has which of the 16,384 slots. Asked for at the first call, and again whenever there is doubt."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

from redis.crc import key_slot
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from storage.sessions.address import Address
from storage.sessions.nodes import MakeNode, Node

SLOTS = 16_384

Place = tuple[str, int]


class ClusterNodes:
    """Masters alone are used: what a replica answers may be old, and every read of a session renews it.

    `MOVED` is believed at once for its slot, and the whole map is read again before the next call, from the node that said so's
    new owner first: it is the first to know. Not through the library's cluster client, which sends ASKING and the command that
    it is meant for over two connections, and turns callers away where all connections are busy.
    """

    def __init__(self, address: Address, make: MakeNode) -> None:
        self._make = make
        self._seeds = list(address.hosts)
        self._nodes: dict[Place, Node] = {}
        self._owners: list[Place | None] = [None] * SLOTS
        self._first: list[Place] = []
        self._sure = False
        self._looking = asyncio.Lock()

    async def serving(self, keys: Sequence[str]) -> list[Node]:
        await self._look_if_unsure()
        owners = [self._owners[key_slot(key.encode())] for key in keys]
        if None in owners:
            self._sure = False
            raise RedisConnectionError  # a slot that nobody serves
        return [self.at(*owner) for owner in owners if owner is not None]

    async def masters(self) -> list[Node]:
        await self._look_if_unsure()
        return [self.at(*place) for place in sorted({owner for owner in self._owners if owner is not None})]

    def doubt(self) -> None:
        self._sure = False

    def moved(self, slot: int, host: str, port: int) -> None:
        """A node said who has the slot."""
        self._owners[slot] = (host, port)
        self._first = [(host, port)]
        self._sure = False

    def at(self, host: str, port: int) -> Node:
        """The node there, whatever it serves."""
        if (host, port) not in self._nodes:
            self._nodes[host, port] = self._make(host, port)
        return self._nodes[host, port]

    @property
    def layout(self) -> object:
        return tuple(self._owners)

    async def aclose(self) -> None:
        for node in self._nodes.values():
            await node.aclose()

    async def _look_if_unsure(self) -> None:
        if not self._sure:
            async with self._looking:  # many callers notice a change at once: one asks
                if not self._sure:
                    await self._look()

    async def _look(self) -> None:
        known = [place for place in {*self._nodes, *self._seeds} if place not in self._first]
        random.shuffle(known)  # replicas of Strata do not all ask the same node
        for place in [*self._first, *known]:
            try:
                ranges = await self.at(*place).ask("CLUSTER", "SLOTS")
            except (RedisError, OSError, TimeoutError):
                continue
            self._owners = _owners(ranges, place[0])
            self._first, self._sure = [], True
            await self._forget_the_gone()
            return
        raise RedisConnectionError

    async def _forget_the_gone(self) -> None:
        """Close what serves nothing any more. One that is just being given its first slot is in use, and stays."""
        serving = {owner for owner in self._owners if owner is not None}
        for place in [place for place, node in self._nodes.items() if place not in serving and not node.calls]:
            await self._nodes.pop(place).aclose()


def _owners(ranges: Sequence[Any], asked: str) -> list[Place | None]:
    """From [[first slot, last slot, [master's host, port, ...], replicas ...], ...]. A node that doesn't know its own name gives
    none: it is where we asked it."""
    owners: list[Place | None] = [None] * SLOTS
    for first, last, master, *_ in ranges:
        host = master[0].decode() if isinstance(master[0], bytes) else master[0]
        place = (host if host and host != "?" else asked, int(master[1]))
        owners[int(first) : int(last) + 1] = [place] * (int(last) - int(first) + 1)
    return owners
