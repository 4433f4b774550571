"""The production tier's index. Each call is one conversation with the server under one deadline (see `Connection.run`)."""

import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from weaviate import WeaviateAsyncClient
from weaviate.classes.config import ConsistencyLevel
from weaviate.classes.query import Filter
from weaviate.exceptions import WeaviateBaseError

from memory.errors import InvalidInput, NotFound
from memory.ids import MemoryId, TenantId, UserRef, checked_id
from memory.scope import Grant, Scope
from storage.index.checks import checked_entries, checked_ids, checked_limit, checked_page, checked_query
from storage.index.weaviate import collection, deleting, objects, placements, replicas, searching, tenants
from storage.index.weaviate.collection import MEMORY_ID, USER_REF, VERSION
from storage.index.weaviate.connection import Connection, Meaning, meaning, or_not_found
from storage.index.weaviate.health import Health
from storage.index.weaviate.placements import COLLECTION, SHARD, Place, Placements, Places, everything_shared
from storage.index.weaviate.settings import WeaviateSettings
from storage.protocols import Hit, SealedEntry, SealedQuery, WalkPage

T = TypeVar("T")

_LONG_DEADLINE_S = 30.0
_IDS = 500


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The server's version, its healthy nodes, and how many tenants of this index are awake."""

    version: str
    nodes: int
    awake: int


class WeaviateIndex:
    """`storage.protocols.VectorIndex` on Weaviate, for vectors of one model.

    Nothing is connected before the first call. `deadline_s` bounds every call (30 s: `check`, `ensure_tenant`, `remove_user`,
    `drop_tenant`). `placements` says where a tenant is, from a cache: it is asked at every call.

    An older version of an entry is kept out by looking before writing; between the two another writer may come, which the Curator's
    marks put right: its writes are level-triggered, and the sweeper compares versions.
    """

    def __init__(
        self,
        settings: WeaviateSettings,
        api_key: str | None,
        model_key: str,
        dimension: int,
        deadline_s: float = 2.0,
        placements: Placements = everything_shared,
    ) -> None:
        self._settings, self._model_key, self._dimension = settings, model_key, dimension
        self._factor, self._deadline_s = settings.replication_factor, deadline_s
        self._places = Places(settings.collection, model_key, placements)
        self._connection = Connection(settings, api_key, deadline_s)
        self._health = Health(settings, self._connection)
        self._awake = tenants.Awake(
            self._places.shared, self._collections, self._connection, settings.idle_s, settings.active_tenants
        )

    # --- the protocol -------------------------------------------------------------------------------------------------

    async def check(self) -> None:
        async def work(client: WeaviateAsyncClient) -> None:
            have = await collection.schema_of(self._connection)
            for name in self._places.ours(have):
                collection.compare(self._wanted_of(name, have[name]), have[name])
            await collection.probe_auto_schema(client, self._settings.collection)
            await self._health.tidy(client)

        await self._connection.run(work, self._long)

    async def ensure_tenant(self, scope: Scope) -> None:
        for place in self._places.writing(scope.tenant_id):
            await self._make(place)

    async def upsert(self, scope: Scope, entries: Sequence[SealedEntry]) -> None:
        vectors = checked_entries(entries, self._dimension)
        newest: dict[MemoryId, tuple[SealedEntry, Any]] = {}
        for entry, vector in zip(entries, vectors, strict=True):
            known = newest.get(entry.id)
            if known is None or not _is_older(entry, known[0].version, known[0].user_ref):
                newest[entry.id] = (entry, vector)

        async def work(client: WeaviateAsyncClient) -> None:
            for place in places:
                stored = await self._stored(place.opened(client), scope.tenant_id, list(newest))
                fresh = [
                    objects.as_object(scope.tenant_id, entry, vector)
                    for entry, vector in newest.values()
                    if entry.id not in stored or not _is_older(entry, *stored[entry.id])
                ]
                await objects.insert(place.opened(client, ConsistencyLevel.QUORUM), fresh)

        places = self._places.writing(scope.tenant_id)
        if newest:
            await self._run(places, or_not_found(work))

    async def remove(self, scope: Scope, ids: Sequence[MemoryId]) -> None:
        found = self._object_ids(scope, ids)
        places = self._places.writing(scope.tenant_id)

        async def work(client: WeaviateAsyncClient) -> None:
            for place in places:
                await _or(None, deleting.remove(self._connection, client, place, self._factor, found))

        if found:
            await self._run(places, work)

    async def remove_user(self, scope: Scope, ref: UserRef) -> int:
        checked_id(ref, "ref")
        places = self._places.writing(scope.tenant_id)

        async def work(client: WeaviateAsyncClient) -> int:
            return max(
                [
                    await _or(0, deleting.remove_user(self._connection, client, place, self._factor, ref))
                    for place in places
                ]
            )

        return await self._run(places, work, self._long)

    async def versions(self, scope: Scope, ids: Sequence[MemoryId]) -> dict[MemoryId, int]:
        if not checked_ids(ids):
            return {}
        place = self._places.reading(scope.tenant_id)

        async def work(client: WeaviateAsyncClient) -> dict[MemoryId, int]:
            stored = await _or({}, self._stored(place.opened(client), scope.tenant_id, ids))
            return {found: version for found, (version, _) in stored.items()}

        return await self._run([place], work)

    async def remaining(self, scope: Scope, ids: Sequence[MemoryId]) -> set[MemoryId]:
        """With several copies each is asked by name, one entry at a time: meant for the few that a deletion verifies."""
        found = {objects.object_id(scope.tenant_id, one): one for one in checked_ids(ids)}
        places = self._places.writing(scope.tenant_id)

        async def work(client: WeaviateAsyncClient) -> set[MemoryId]:
            left: set[MemoryId] = set()
            for place in places:
                if self._factor == 1:
                    left |= set(await _or({}, self._stored(place.opened(client), scope.tenant_id, ids)))
                    continue
                left |= {found[one] for one in await replicas.held(self._connection, place, self._factor, list(found))}
            return left

        return await self._run(places, work) if found else set()

    async def search(self, scope: Scope, query: SealedQuery, vector_limit: int, keyword_limit: int) -> list[Hit]:
        vector, terms = checked_query(query, self._dimension)
        checked_limit(vector_limit, "vector_limit")
        checked_limit(keyword_limit, "keyword_limit")
        place = self._places.reading(scope.tenant_id)

        async def work(client: WeaviateAsyncClient) -> list[Hit]:
            handle = place.opened(client)
            return await _or([], searching.search(handle, query.user_ref, vector, terms, vector_limit, keyword_limit))

        return await self._run([place], work)

    async def walk(self, scope: Scope, cursor: str | None, limit: int) -> WalkPage:
        """In ascending order of object ids, which are the cursors and say nothing of the entries' order."""
        checked_page(limit)
        after = None if cursor is None else _cursor(cursor)
        place = self._places.reading(scope.tenant_id)

        async def work(client: WeaviateAsyncClient) -> WalkPage:
            answer = await place.opened(client).query.fetch_objects(
                limit=limit, after=after, return_properties=[MEMORY_ID, VERSION]
            )
            entries = tuple(objects.entry_of(found.properties) for found in answer.objects)
            return WalkPage(entries, str(answer.objects[-1].uuid) if len(entries) == limit else None)

        return await self._run([place], lambda client: _or(WalkPage(()), work(client)))

    async def count(self, scope: Scope, ref: UserRef | None) -> int:
        """Of one copy; with several, Unavailable unless all are there (they come to agree within a minute)."""
        where = None if ref is None else Filter.by_property(USER_REF).equal(checked_id(ref, "ref"))
        places = self._places.writing(scope.tenant_id)

        async def of(client: WeaviateAsyncClient, place: Place) -> int:
            handle = place.opened(client)
            if where is None:
                found = (await handle.aggregate.over_all(total_count=True)).total_count
            else:
                # no aggregate: two writes of one entry at the same moment may leave the loser in the server's filters for good, where
                # an aggregate counts it; what a delete would match are objects
                found = (await handle.data.delete_many(where=where, dry_run=True)).matches
            if self._factor > 1:
                await replicas.holders(self._connection, place, self._factor)
            return int(found or 0)

        async def work(client: WeaviateAsyncClient) -> int:
            return max([await _or(0, of(client, place)) for place in places])

        return await self._run(places, work)

    async def tenants(self, scope: Scope) -> set[TenantId]:
        scope.require(Grant.SYSTEM)
        found: set[TenantId] = set()
        for name in await self._collections():
            found |= await self._connection.run(partial(tenants.tenants_in, collection=name))
        return found

    async def scrub(self, scope: Scope) -> None:
        """Nothing to be done from here: removed bytes stay in the server's log and segments until it compacts them. They are sealed
        under a key that an erasure destroys; dropping a tenant removes its files at once."""
        checked_id(scope.tenant_id, "tenant_id")

    async def drop_tenant(self, scope: Scope) -> None:
        for place in (SHARD, COLLECTION):
            await self._drop(self._places.at(scope.tenant_id, place))

    async def ping(self) -> None:
        await self._connection.run(self._health.ping)

    async def aclose(self) -> None:
        await self._awake.aclose()
        await self._connection.aclose()

    # --- placements ---------------------------------------------------------------------------------------------------

    async def ensure_place(self, scope: Scope, place: str) -> None:
        """`shard` or `collection`: the tenant's partition there, made where there is none. Needs Grant.SYSTEM, as do the next two."""
        scope.require(Grant.SYSTEM)
        await self._make(self._places.at(scope.tenant_id, place))

    async def copy_tenant(
        self, scope: Scope, source: str, target: str, progress: Callable[[int], None] = lambda entries: None
    ) -> int:
        """Everything in `source` is in `target` as well, while both are being written; how many entries there were. May run again
        after it was cut off. `progress` hears of each page's entries. NotFound("partition") where one of the two is missing."""
        scope.require(Grant.SYSTEM)
        old, new = self._places.at(scope.tenant_id, source), self._places.at(scope.tenant_id, target)
        return await placements.copy(self._connection, old, new, progress, self._long)

    async def drop_place(self, scope: Scope, place: str) -> None:
        """Once every replica reads the other one. Idempotent."""
        scope.require(Grant.SYSTEM)
        await self._drop(self._places.at(scope.tenant_id, place))

    async def places_of(self, scope: Scope) -> set[str]:
        """Where the tenant has a partition, read or not: a move that was cut off leaves two."""
        scope.require(Grant.SYSTEM)
        both = {place: self._places.at(scope.tenant_id, place) for place in (SHARD, COLLECTION)}

        async def work(client: WeaviateAsyncClient) -> set[str]:
            return {
                name
                for name, place in both.items()
                if place.tenant in await tenants.tenants_in(client, place.collection)
            }

        return await self._connection.run(work)

    async def drop_collections(self, scope: Scope) -> None:
        """All of this model's index: the shared collection and every tenant's own. For a version that is dropped; idempotent."""
        scope.require(Grant.SYSTEM)
        for name in await self._collections():
            await self._connection.run(partial(_delete_collection, name=name), self._long)

    async def put_idle_to_sleep(self) -> int:
        """One pass of what a task does by itself. Returns how many tenants went to sleep."""
        return await self._awake.put_idle_to_sleep()

    async def server(self) -> ServerFacts:
        """For an operator's check."""
        collections = await self._collections()

        async def work(client: WeaviateAsyncClient) -> ServerFacts:
            about = await self._connection.get_json("/meta")
            nodes = (await self._connection.get_json("/nodes")).get("nodes") or []
            awake = [await tenants.awake_in(client, name) for name in collections]
            healthy = sum(node.get("status") == "HEALTHY" for node in nodes)
            return ServerFacts(str(about.get("version", "")), healthy, sum(map(len, awake)))

        return await self._connection.run(work, self._long)

    # --- inside -------------------------------------------------------------------------------------------------------

    @property
    def _long(self) -> float:
        return max(_LONG_DEADLINE_S, self._deadline_s)

    async def _run(
        self,
        places: Sequence[Place],
        work: Callable[[WeaviateAsyncClient], Awaitable[T]],
        deadline_s: float | None = None,
    ) -> T:
        for place in places:
            self._awake.used(place)
        return await self._connection.run(work, deadline_s)

    async def _collections(self) -> list[str]:
        have = await self._connection.run(lambda client: collection.schema_of(self._connection))
        return self._places.ours(have)

    def _wanted(self, name: str, tenant_id: TenantId | None) -> dict[str, Any]:
        kind = self._settings.vector_index if tenant_id is None else self._settings.large_tenant_index
        return collection.wanted(name, self._model_key, self._dimension, kind, self._settings, tenant_id)

    def _wanted_of(self, name: str, have: dict[str, Any]) -> dict[str, Any]:
        return self._wanted(name, None if name == self._places.shared else collection.tenant_of(have))

    async def _make(self, place: Place) -> None:
        async def work(client: WeaviateAsyncClient) -> None:
            if await tenants.make(client, place):
                return
            shared = place.collection == self._places.shared
            await collection.create(
                self._connection, client, self._wanted(place.collection, None if shared else place.tenant)
            )
            if not await tenants.make(client, place):
                raise NotFound("partition")

        await self._connection.run(work, self._long)

    async def _drop(self, place: Place) -> None:
        async def work(client: WeaviateAsyncClient) -> None:
            await tenants.drop(client, place)
            if place.collection != self._places.shared:
                await _delete_collection(client, place.collection)

        await self._connection.run(work, self._long)

    def _object_ids(self, scope: Scope, ids: Sequence[MemoryId]) -> list[uuid.UUID]:
        return [objects.object_id(scope.tenant_id, one) for one in dict.fromkeys(checked_ids(ids))]

    async def _stored(
        self, handle: Any, tenant_id: TenantId, ids: Sequence[MemoryId]
    ) -> dict[MemoryId, tuple[int, UserRef]]:
        """Version and reference of those of `ids` that one copy holds."""
        wanted = [objects.object_id(tenant_id, one) for one in ids]
        stored: dict[MemoryId, tuple[int, UserRef]] = {}
        for start in range(0, len(wanted), _IDS):
            part = wanted[start : start + _IDS]
            answer = await handle.query.fetch_objects_by_ids(
                part, limit=len(part), return_properties=[MEMORY_ID, VERSION, USER_REF]
            )
            for found in answer.objects:
                memory_id, version = objects.entry_of(found.properties)
                stored[memory_id] = (version, objects.owner_of(found.properties))
        return stored


def _is_older(entry: SealedEntry, version: int, owner: UserRef) -> bool:
    return entry.user_ref == owner and entry.version < version


def _cursor(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise InvalidInput("cursor", "use the one that came with the page before") from None


async def _delete_collection(client: WeaviateAsyncClient, name: str) -> None:
    await client.collections.delete(name)


async def _or(nothing: T, work: Awaitable[T]) -> T:
    """What `work` answers; `nothing` where there is no such partition."""
    try:
        return await work
    except NotFound:
        return nothing
    except WeaviateBaseError as error:
        if meaning(error) is Meaning.NO_PARTITION:
            return nothing
        raise
