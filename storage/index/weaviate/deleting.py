"""Removing entries, so that it can be shown.

One copy: a filtered delete, again until it matches nothing. Several: by id at consistency ALL, and then every copy counted; the
filter of a filtered delete is looked up on one of them and proves nothing.
"""

import uuid
from collections.abc import Sequence
from functools import partial
from typing import Any

from weaviate import WeaviateAsyncClient
from weaviate.classes.config import ConsistencyLevel
from weaviate.classes.query import Filter

from memory.errors import Unavailable
from memory.ids import UserRef
from storage.index.weaviate.collection import USER_REF
from storage.index.weaviate.connection import NAME, Connection, each
from storage.index.weaviate.placements import Place
from storage.index.weaviate.replicas import holders

_IDS = 500
_AT_ONCE = 16
_PAGE = 1_000
_ROUNDS = 1_000


async def by_filter(handle: Any, where: Any) -> int:
    """How many went. A call takes 10,000 at most."""
    removed = 0
    for _ in range(_ROUNDS):
        answer = await handle.data.delete_many(where=where)
        removed += int(answer.successful)
        if answer.matches == 0:
            return removed
        if answer.successful == 0:
            break
    raise Unavailable(NAME)


async def _one_by_one(handle: Any, ids: Sequence[uuid.UUID]) -> None:
    await each([partial(handle.data.delete_by_id, found) for found in ids], _AT_ONCE)


async def _every_copy(
    connection: Connection, client: WeaviateAsyncClient, place: Place, factor: int, ids: Sequence[uuid.UUID]
) -> None:
    """Unavailable unless all copies were there before and after; those that are there are rid of `ids` in any case."""
    try:
        await holders(connection, place, factor)
    except Unavailable:
        await _one_by_one(place.opened(client, ConsistencyLevel.QUORUM), ids)
        raise
    await _one_by_one(place.opened(client, ConsistencyLevel.ALL), ids)
    await holders(connection, place, factor)


async def remove(
    connection: Connection, client: WeaviateAsyncClient, place: Place, factor: int, ids: Sequence[uuid.UUID]
) -> None:
    """Unavailable where a copy could not be reached; the others are rid of it all the same."""
    handle = place.opened(client, ConsistencyLevel.ALL)
    if factor == 1:
        for start in range(0, len(ids), _IDS):
            await by_filter(handle, Filter.by_id().contains_any(list(ids[start : start + _IDS])))
        return
    await _every_copy(connection, client, place, factor, ids)


async def remove_user(
    connection: Connection, client: WeaviateAsyncClient, place: Place, factor: int, ref: UserRef
) -> int:
    """How many were found. Several copies: those that the one that was asked has; the ids of a user's entries come from SQL as well,
    and each of those is removed and verified by name."""
    where = Filter.by_property(USER_REF).equal(ref)
    handle = place.opened(client, ConsistencyLevel.ALL)
    if factor == 1:
        return await by_filter(handle, where)
    removed: set[uuid.UUID] = set()
    for _ in range(_ROUNDS):
        answer = await handle.query.fetch_objects(filters=where, limit=_PAGE, return_properties=[])
        ids = [uuid.UUID(str(found.uuid)) for found in answer.objects]
        if not ids:
            await holders(connection, place, factor)
            return len(removed)
        await _every_copy(connection, client, place, factor, ids)
        removed |= set(ids)
    raise Unavailable(NAME)
