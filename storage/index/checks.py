"""What no backend checks for us, checked before any is asked (facts of both tiers: NaN, lengths, limits, blanks around ids)."""

import re
from collections.abc import Sequence

import numpy as np

from memory.encoding import Vector
from memory.errors import InvalidInput
from memory.ids import MemoryId, checked_id
from storage.protocols import SealedEntry, SealedQuery

MAX_LIMIT = 1_000
MAX_QUERY_TERMS = 256
"""Distinct terms of a question that are looked up: some 100 Chinese characters or 250 English words."""
MAX_ENTRY_TERMS = 4_096
_UNIT_TOLERANCE = 1e-3
_TERM = re.compile(r"[a-z0-9]{1,64}", re.ASCII)


def checked_vector(vector: Vector, dimension: int, field: str) -> Vector:
    """`vector` as contiguous float32; InvalidInput unless it has `dimension` finite numbers and unit length."""
    array = np.ascontiguousarray(vector, dtype=np.float32)
    if array.shape != (dimension,):
        raise InvalidInput(field, f"use one vector of {dimension} numbers, as this index's model makes them")
    # a sum of squares is finite only where every number is
    length = float(np.sqrt(np.dot(array.astype(np.float64), array)))
    if not abs(length - 1.0) <= _UNIT_TOLERANCE:
        raise InvalidInput(field, "use finite numbers and unit length")
    return array


def _checked_terms(terms: Sequence[str], most: int, field: str) -> None:
    if len(terms) > most:
        raise InvalidInput(field, f"use at most {most} terms")
    if not all(_TERM.fullmatch(term) for term in terms):
        raise InvalidInput(field, "use sealed terms: 1 to 64 of the characters a-z 0-9")


def checked_entries(entries: Sequence[SealedEntry], dimension: int) -> list[Vector]:
    """The entries' vectors, after every entry has been checked: a batch is stored whole or refused whole."""
    vectors = []
    for position, entry in enumerate(entries):
        field = f"entries.{position}"
        checked_id(entry.id, f"{field}.id")
        checked_id(entry.user_ref, f"{field}.user_ref")
        if entry.version < 1:
            raise InvalidInput(f"{field}.version", "use 1 or more")
        _checked_terms(entry.terms, MAX_ENTRY_TERMS, f"{field}.terms")
        _checked_terms(entry.context_terms, MAX_ENTRY_TERMS, f"{field}.context_terms")
        vectors.append(checked_vector(entry.vector, dimension, f"{field}.vector"))
    return vectors


def checked_limit(limit: int, field: str) -> int:
    if not 0 <= limit <= MAX_LIMIT:
        raise InvalidInput(field, f"use 0 to {MAX_LIMIT}")
    return limit


def checked_page(limit: int) -> int:
    """Of a walk. A page of none would never end."""
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidInput("limit", f"use 1 to {MAX_LIMIT}")
    return limit


def checked_ids(ids: Sequence[MemoryId]) -> Sequence[MemoryId]:
    for position, memory_id in enumerate(ids):
        checked_id(memory_id, f"ids.{position}")
    return ids


def checked_query(query: SealedQuery, dimension: int) -> tuple[Vector | None, tuple[str, ...]]:
    """The vector, and the first `MAX_QUERY_TERMS` distinct terms in order (a repeated term would count twice)."""
    checked_id(query.user_ref, "query.user_ref")
    terms = tuple(dict.fromkeys(query.terms))[:MAX_QUERY_TERMS]
    _checked_terms(terms, MAX_QUERY_TERMS, "query.terms")
    vector = None if query.vector is None else checked_vector(query.vector, dimension, "query.vector")
    return vector, terms
