"""Fusion: several scores of the same candidates become one order, and duplicates become one entry (L8)."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from memory.entry import Memory
from memory.text import fingerprint

T = TypeVar("T")
Scores = NDArray[np.float64]
"""float64 [candidates]; NaN where this way of searching did not find the candidate."""

RRF_K: Final = 60
"""Cormack, Clarke and Büttcher (2009): how slowly a rank loses weight."""


def rrf(rankings: Sequence[Scores], weights: Sequence[float]) -> Scores:
    """Reciprocal rank fusion: the sum of weight / (60 + rank), ranks from 1, scaled to at most 1 (first everywhere).

    Equal scores share the better rank, so that the order of the candidates as given never matters.
    """
    fused = np.zeros(len(rankings[0]))
    for scores, weight in zip(rankings, weights, strict=True):
        found = ~np.isnan(scores)
        ahead = (scores[found][None, :] > scores[found][:, None]).sum(axis=1)
        fused[found] += weight / (RRF_K + 1 + ahead)
    return fused * ((RRF_K + 1) / (sum(weights) or 1.0))


def scaled(scores: Scores, floor: float | None = None) -> Scores:
    """Min-max: the best is 1, the worst 0, so that scores of different kinds can be added. Not found is 0.

    `floor` is a score that is known to mean nothing (unrelated texts): it counts as one more candidate, so that among two good
    candidates the second is not called worthless. Where nothing lies above the worst, all are 0.
    """
    found = scores[~np.isnan(scores)]
    if not len(found):
        return np.zeros(len(scores))
    low = float(found.min()) if floor is None else min(float(found.min()), floor)
    span = float(found.max()) - low
    if span <= 0:
        return np.zeros(len(scores))
    return np.nan_to_num((scores - low) / span, nan=0.0)


def weighted(parts: Sequence[Scores], weights: Sequence[float]) -> Scores:
    """Weighted mean of scaled scores, in [0, 1]."""
    total = sum(weights) or 1.0
    fused: Scores = np.sum([w * p for p, w in zip(parts, weights, strict=True)], axis=0) / total
    return fused


def identities(memory: Memory) -> Iterable[Hashable]:
    """What makes two entries one: the same id; the same words about the same time; or the same value of the same attribute.

    The same words on another date are another event (P10), so the date belongs to the words.
    """
    yield ("id", memory.id)
    yield ("words", fingerprint(memory.content), memory.valid_from)
    if memory.subject is not None and memory.value is not None:
        yield ("value", memory.subject, memory.value)


def folded(ranked: Iterable[tuple[Memory, T]], most: int | None = None) -> list[tuple[Memory, T]]:
    """`ranked`, best first, without entries that say what a better one said already; the first `most` of them."""
    seen: set[Hashable] = set()
    kept: list[tuple[Memory, T]] = []
    for memory, payload in ranked:
        if len(kept) == most:
            break
        keys = set(identities(memory))
        if not keys & seen:
            kept.append((memory, payload))
        seen |= keys
    return kept
