"""Both arms of a search, each over one user's entries alone, scored so that our own rule can fuse them."""

from collections.abc import Sequence
from typing import Any

from weaviate.classes.query import Filter, MetadataQuery

from memory.encoding import Vector
from memory.ids import MemoryId, UserRef
from memory.lexical import K1
from storage.index.weaviate.collection import MEMORY_ID, TERMS, USER_REF, VERSION
from storage.index.weaviate.connection import each
from storage.index.weaviate.objects import entry_of
from storage.protocols import Hit

_RETURNED = [MEMORY_ID, VERSION]
_Found = list[tuple[MemoryId, int, float]]


async def _near(handle: Any, user_ref: UserRef, vector: Vector, limit: int) -> _Found:
    answer = await handle.query.near_vector(
        near_vector=vector.tolist(),
        limit=limit,
        filters=Filter.by_property(USER_REF).equal(user_ref),
        return_metadata=MetadataQuery(distance=True),
        return_properties=_RETURNED,
    )
    return [(*entry_of(found.properties), 1.0 - found.metadata.distance) for found in answer.objects]


async def _worded(handle: Any, user_ref: UserRef, terms: Sequence[str], limit: int) -> _Found:
    """With the scores of memory/lexical.py: the server's BM25 leaves out a constant."""
    answer = await handle.query.bm25(
        query=" ".join(terms),
        query_properties=[TERMS],
        limit=limit,
        filters=Filter.by_property(USER_REF).equal(user_ref),
        return_metadata=MetadataQuery(score=True),
        return_properties=_RETURNED,
    )
    return [(*entry_of(found.properties), found.metadata.score * (K1 + 1)) for found in answer.objects]


def _ordered(found: _Found) -> _Found:
    return sorted(found, key=lambda hit: (-hit[2], hit[0]))


async def search(
    handle: Any, user_ref: UserRef, vector: Vector | None, terms: Sequence[str], vector_limit: int, keyword_limit: int
) -> list[Hit]:
    """The union of both arms. `terms` are distinct: a repeated one would count twice. A limit of 0 is never sent: it would mean the
    server's default."""

    async def near() -> _Found:
        return [] if vector is None or not vector_limit else await _near(handle, user_ref, vector, vector_limit)

    async def worded() -> _Found:
        return await _worded(handle, user_ref, terms, keyword_limit) if terms and keyword_limit else []

    by_vector, by_words = await each([near, worded], 2)
    hits = {found: Hit(found, version, cosine, None) for found, version, cosine in _ordered(by_vector)}
    for found, version, score in _ordered(by_words):
        hits[found] = Hit(found, version, hits[found].cosine if found in hits else None, score)
    return list(hits.values())
