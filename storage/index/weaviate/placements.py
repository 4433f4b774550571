"""Where a tenant's entries lie, and how they get from one place to another while both answer.

A shared collection has a shard for each tenant; a large tenant may have a collection of its own, which has that one tenant. While
one moves, everything is written first to the old place and then to the new one, and the old one is read. That order is what makes
copying safe: what the copier still finds in the old place after it wrote the new one can only change in the new one later.
"""

import hashlib
import re
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from weaviate import WeaviateAsyncClient
from weaviate.classes.config import ConsistencyLevel
from weaviate.classes.data import DataObject

from memory.errors import ConfigError, InvalidInput, Unavailable
from memory.ids import TenantId, checked_id
from storage.index.weaviate.collection import USER_REF, VECTOR, VERSION
from storage.index.weaviate.connection import NAME, Connection, or_not_found
from storage.index.weaviate.objects import insert
from storage.protocols import Placement

Placements = Callable[[TenantId], Placement]
SHARD, COLLECTION = "shard", "collection"
_MODEL_KEY = re.compile(r"[A-Za-z0-9_]{1,100}", re.ASCII)
_OWN = "_T"
_PAGE = 200
_ROUNDS = 20


def everything_shared(tenant_id: TenantId) -> Placement:
    return Placement(SHARD)


@dataclass(frozen=True, slots=True)
class Place:
    """One tenant of one collection."""

    collection: str
    tenant: TenantId

    def opened(self, client: WeaviateAsyncClient, level: ConsistencyLevel | None = None) -> Any:
        """The client's handle. A handle for writes says its consistency level."""
        handle = client.collections.use(self.collection).with_tenant(self.tenant)
        return handle if level is None else handle.with_consistency_level(level)


class Places:
    """Names collections and says which of them a tenant is in."""

    def __init__(self, prefix: str, model_key: str, placements: Placements) -> None:
        if not _MODEL_KEY.fullmatch(model_key):
            raise ConfigError("model", "its key must be of A-Z a-z 0-9 and _ to name a Weaviate collection")
        self.shared = f"{prefix}_{model_key}"
        self._placements = placements

    def own(self, tenant_id: TenantId) -> str:
        """The name of the tenant's own collection: by digest, since collections know neither `-` nor, on disk, upper case."""
        return f"{self.shared}{_OWN}{hashlib.blake2b(tenant_id.encode(), digest_size=16).hexdigest()}"

    def ours(self, names: Iterable[str]) -> list[str]:
        """Those of `names` that belong to this model's index: the shared one and the tenants' own."""
        own = re.compile(re.escape(self.shared + _OWN) + r"[0-9a-f]{32}")
        return sorted(name for name in names if name == self.shared or own.fullmatch(name))

    def at(self, tenant_id: TenantId, place: str) -> Place:
        checked_id(tenant_id, "tenant_id")
        if place not in (SHARD, COLLECTION):
            raise InvalidInput("place", f"use `{SHARD}` or `{COLLECTION}`")
        return Place(self.shared if place == SHARD else self.own(tenant_id), tenant_id)

    def reading(self, tenant_id: TenantId) -> Place:
        checked_id(tenant_id, "tenant_id")
        return self.at(tenant_id, self._placements(tenant_id).place)

    def writing(self, tenant_id: TenantId) -> list[Place]:
        """The place that is read comes first."""
        checked_id(tenant_id, "tenant_id")
        placement = self._placements(tenant_id)
        places = [self.at(tenant_id, placement.place)]
        if placement.moving_to not in (None, placement.place):
            places.append(self.at(tenant_id, str(placement.moving_to)))
        return places


_State = dict[uuid.UUID, tuple[int, str]]
"""Version and owner of each object."""


async def _look(
    handle: Any, ids: list[uuid.UUID], vectors: bool
) -> tuple[_State, list[DataObject[dict[str, Any], None]]]:
    answer = await handle.query.fetch_objects_by_ids(ids, limit=len(ids), include_vector=vectors)
    state = {found.uuid: (int(found.properties[VERSION]), str(found.properties[USER_REF])) for found in answer.objects}
    return state, [_copied(found) for found in answer.objects] if vectors else []


def _copied(found: Any) -> DataObject[dict[str, Any], None]:
    return DataObject(
        properties=dict(found.properties), uuid=uuid.UUID(str(found.uuid)), vector={VECTOR: found.vector[VECTOR]}
    )


async def _delete(handle: Any, ids: Iterable[uuid.UUID]) -> None:
    for one in ids:
        await handle.data.delete_by_id(one)


async def copy(
    connection: Connection, source: Place, target: Place, progress: Callable[[int], None], deadline_s: float
) -> int:
    """Everything of `source` is in `target` afterwards, vectors and all; how many entries were walked. Each page has the deadline.

    After each page both sides are looked at again: what changed in the old place meanwhile is copied again, what went is removed.
    """
    copied, cursor = 0, None
    while True:

        async def page(client: WeaviateAsyncClient, after: uuid.UUID | None = cursor) -> list[uuid.UUID]:
            old = source.opened(client)
            new = target.opened(client, ConsistencyLevel.QUORUM)
            answer = await old.query.fetch_objects(limit=_PAGE, after=after, include_vector=True)
            ids = [uuid.UUID(str(found.uuid)) for found in answer.objects]
            if ids:
                await insert(new, [_copied(found) for found in answer.objects])
                await _settle(old, new, ids)
            return ids

        ids = await connection.run(or_not_found(page), deadline_s)
        copied += len(ids)
        progress(len(ids))
        if len(ids) < _PAGE:
            return copied
        cursor = ids[-1]


async def _settle(old: Any, new: Any, ids: list[uuid.UUID]) -> None:
    for _ in range(_ROUNDS):
        theirs, _objects = await _look(old, ids, False)
        ours, _objects = await _look(new, ids, False)
        changed = [one for one in ids if one in theirs and ours.get(one) != theirs[one]]
        gone = [one for one in ids if one in ours and one not in theirs]
        if not changed and not gone:
            return
        await _delete(new, gone)
        if changed:
            _state, objects = await _look(old, changed, True)
            await insert(new, objects)
    raise Unavailable(NAME)  # written faster than it is copied; the copy starts again where it is asked to
