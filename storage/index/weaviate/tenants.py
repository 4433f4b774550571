"""Which tenants are awake, and putting the idle ones to sleep.

An awake tenant holds files and memory of the server; one that sleeps wakes by itself when it is asked (some 5 ms). Each replica
knows what it asked for itself: it puts to sleep what it has not used for `idle_s`, and the least recently used beyond the cap.
Another replica that still uses one merely wakes it again, and it is left alone for another `idle_s`. A tenant with a collection of
its own stays awake: an hnsw index of 30,000 takes four seconds to wake.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable
from functools import partial

from prometheus_client import Gauge
from weaviate import WeaviateAsyncClient
from weaviate.classes.tenants import Tenant, TenantActivityStatus
from weaviate.exceptions import UnexpectedStatusCodeError, WeaviateBaseError

from memory.errors import StrataError
from memory.ids import TenantId
from storage.index.weaviate.connection import Connection, Meaning, meaning
from storage.index.weaviate.placements import Place

ACTIVE = Gauge(
    "strata_weaviate_active_tenants",
    "Tenants awake in Weaviate when they were last counted.",
    ["collection"],
    multiprocess_mode="mostrecent",
)
_PER_CALL = 100
_LONGEST_S, _SHORTEST_S = 30.0, 0.2


def victims(last_used: dict[Place, float], now: float, idle_s: float, cap: int) -> list[Place]:
    """Of the tenants that are awake: the idle ones, and the least recently used of the others beyond `cap`. Oldest first."""
    oldest_first = sorted(last_used, key=lambda place: (last_used[place], place.collection, place.tenant))
    surplus = len(oldest_first) - cap
    return [place for n, place in enumerate(oldest_first) if n < surplus or now - last_used[place] >= idle_s]


class Awake:
    """What this replica used when; a task of its own keeps the number awake below `cap`."""

    def __init__(
        self,
        shared: str,
        collections: Callable[[], Awaitable[list[str]]],
        connection: Connection,
        idle_s: float,
        cap: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shared, self._collections, self._connection = shared, collections, connection
        self._idle_s, self._cap, self._clock = idle_s, cap, clock
        self._last_used: dict[Place, float] = {}
        self._crowded = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def used(self, place: Place) -> None:
        self._last_used[place] = self._clock()
        if len(self._last_used) > self._cap:
            self._crowded.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._keep(), name="weaviate-tenants")

    async def put_idle_to_sleep(self) -> int:
        """One pass: count who is awake, send to sleep who should. Returns how many went to sleep."""
        awake: set[Place] = set()
        number: dict[str, int] = {}
        for collection in await self._collections():
            there = await self._connection.run(partial(awake_in, collection=collection))
            number[collection] = len(there)
            ACTIVE.labels(collection).set(len(there))
            awake |= there
        now = self._clock()
        # one that nobody here asked for counts from when it was first seen awake
        self._last_used = {place: self._last_used.get(place, now) for place in awake}
        may_sleep = {place: used for place, used in self._last_used.items() if place.collection == self._shared}
        chosen = victims(may_sleep, now, self._idle_s, self._cap - (len(awake) - len(may_sleep)))
        for start in range(0, len(chosen), _PER_CALL):
            part = chosen[start : start + _PER_CALL]
            tenants = [place.tenant for place in part]
            await self._connection.run(partial(_sleep, collection=self._shared, tenants=tenants))
            number[self._shared] -= len(part)
            ACTIVE.labels(self._shared).set(number[self._shared])
            for place in part:
                self._last_used.pop(place, None)
        return len(chosen)

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _keep(self) -> None:
        pause = min(_LONGEST_S, max(_SHORTEST_S, self._idle_s / 4))
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause * (0.75 + random.random() / 2)):  # noqa: S311 - spreads the replicas
                    await self._crowded.wait()
            self._crowded.clear()
            with contextlib.suppress(StrataError):  # the server is away: the next pass tries again
                await self.put_idle_to_sleep()
            await asyncio.sleep(_SHORTEST_S)


async def awake_in(client: WeaviateAsyncClient, collection: str) -> set[Place]:
    found = await client.collections.use(collection).tenants.get()
    return {
        Place(collection, TenantId(name))
        for name, tenant in found.items()
        if tenant.activity_status is TenantActivityStatus.ACTIVE
    }


async def tenants_in(client: WeaviateAsyncClient, collection: str) -> set[TenantId]:
    """Awake or not; none where there is no such collection."""
    try:
        return {TenantId(name) for name in await client.collections.use(collection).tenants.get()}
    except WeaviateBaseError as error:
        if meaning(error) is Meaning.NO_PARTITION:
            return set()
        raise


async def _sleep(client: WeaviateAsyncClient, collection: str, tenants: list[TenantId]) -> None:
    try:
        await client.collections.use(collection).tenants.deactivate(list(tenants))
    except UnexpectedStatusCodeError as error:
        # 422: one of them was dropped, or is in use at this moment; the next pass sees who is awake
        if error.status_code != 422:
            raise


async def make(client: WeaviateAsyncClient, place: Place) -> bool:
    """The tenant is there afterwards, new or old. False where its collection is missing."""
    try:
        await client.collections.use(place.collection).tenants.create([Tenant(name=place.tenant)])
        return True
    except UnexpectedStatusCodeError as error:
        if meaning(error) is Meaning.NO_PARTITION:
            return False
        raise


async def drop(client: WeaviateAsyncClient, place: Place) -> None:
    """The tenant with its files, awake or not. Idempotent."""
    try:
        await client.collections.use(place.collection).tenants.remove([place.tenant])
    except UnexpectedStatusCodeError as error:
        if meaning(error) is not Meaning.NO_PARTITION:
            raise
