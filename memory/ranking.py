"""Ranking: how similarity, age, confidence and importance make one score (L7). The tenant's policy chooses the formula."""

import math
from datetime import datetime, timedelta
from typing import Final

from memory.entry import Memory
from memory.policy import RankingFormula, RecallPolicy

DAY: Final = timedelta(days=1)


def decay(age: timedelta, rate_per_day: float) -> float:
    """Weight in (0, 1] of a memory of this age: exp(-rate x days).

    Requirement L7. A rate of 0.01 leaves 0.55 after 60 days and 0.17 after 180; a rate of 0 never fades.
    An entry from the future (clock skew between replicas) counts as new.
    """
    days = max(age / DAY, 0.0)
    return math.exp(-rate_per_day * days)


def age(memory: Memory, now: datetime) -> timedelta:
    """Since it was last said: `updated_at` moves when an entry is confirmed or reworded.

    Never since `valid_from`: a date that the entry speaks about says nothing about how fresh the entry is (P17).
    """
    return now - memory.updated_at


def rank_score(memory: Memory, similarity: float, policy: RecallPolicy, now: datetime) -> float:
    """The entry's score in [0, 1] for a question that it resembles by `similarity` in [0, 1].

    The three formulas are those of the source documents; "recency" and "freshness" are the decay of the entry's kind.
    """
    freshness = decay(age(memory, now), policy.decay.of(memory.kind))
    if policy.formula is RankingFormula.PRODUCT:
        return similarity * freshness * memory.confidence
    if policy.formula is RankingFormula.RECENCY:
        return 0.5 * similarity + 0.3 * freshness + 0.2 * memory.importance
    return 0.6 * similarity + 0.3 * memory.importance + 0.1 * freshness
