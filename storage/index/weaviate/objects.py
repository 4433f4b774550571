"""Entries as objects of a collection, and back."""

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from weaviate.classes.data import DataObject
from weaviate.exceptions import WeaviateInsertManyAllFailedError

from memory.encoding import Vector
from memory.errors import NotFound, Unavailable
from memory.ids import MemoryId, TenantId, UserRef
from storage.index.weaviate.collection import MEMORY_ID, OWN_REPEATS, TERMS, USER_REF, VECTOR, VERSION
from storage.index.weaviate.connection import NAME, Asleep, Meaning, meaning, meaning_of
from storage.protocols import SealedEntry

_NAMESPACE = uuid.UUID("5f0c1a52-6a0e-5d0c-9a53-7a0f6b1f3c11")
_BATCH_OBJECTS = 500
_BATCH_BYTES = 8 << 20
"""Of terms and vectors in one request; a server takes 100 MB."""


def object_id(tenant_id: TenantId, memory_id: MemoryId) -> uuid.UUID:
    """Derived, so that an entry written twice is one object."""
    return uuid.uuid5(_NAMESPACE, f"{tenant_id}\x1f{memory_id}")


def as_object(tenant_id: TenantId, entry: SealedEntry, vector: Vector) -> DataObject[dict[str, Any], None]:
    """`vector` as checked. Own terms are repeated, so that those of the turn before weigh less."""
    return DataObject(
        uuid=object_id(tenant_id, entry.id),
        properties={
            MEMORY_ID: entry.id,
            USER_REF: entry.user_ref,
            VERSION: entry.version,
            TERMS: " ".join((*(entry.terms * OWN_REPEATS), *entry.context_terms)),
        },
        vector={VECTOR: vector.tolist()},
    )


def entry_of(properties: dict[str, Any]) -> tuple[MemoryId, int]:
    return MemoryId(properties[MEMORY_ID]), int(properties[VERSION])


def owner_of(properties: dict[str, Any]) -> UserRef:
    return UserRef(properties[USER_REF])


def batches(objects: Sequence[DataObject[dict[str, Any], None]]) -> Iterator[list[DataObject[dict[str, Any], None]]]:
    """In order, each within what one request may hold."""
    batch: list[DataObject[dict[str, Any], None]] = []
    size = 0
    for item in objects:
        weight = len(item.properties[TERMS]) + 4 * len(item.vector[VECTOR]) + 512  # type: ignore[index,call-overload]
        if batch and (len(batch) == _BATCH_OBJECTS or size + weight > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += weight
    if batch:
        yield batch


async def insert(collection: Any, objects: Sequence[DataObject[dict[str, Any], None]]) -> None:
    """All stored, or an error: NotFound("partition"), Unavailable, Asleep. A batch may fail in part, so its errors are read one by one."""
    for batch in batches(objects):
        try:
            answer = await collection.data.insert_many(batch)
        except WeaviateInsertManyAllFailedError as error:
            found = {meaning(error)}
        else:
            found = {meaning_of(failed.message) for failed in answer.errors.values()}
        if Meaning.NO_PARTITION in found:
            raise NotFound("partition")
        if Meaning.ASLEEP in found:
            raise Asleep
        if found:
            raise Unavailable(NAME)
