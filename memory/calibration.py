"""Calibration: from scores that mean something only for one embedding model to a probability of relevance that means the same for all.

Cosines of one model lie in .78 ... .87 for unrelated texts, those of another around 0, so a fixed threshold on a cosine is
meaningless. What is compared is how far a score lies above the model's own unrelated pairs. No feature looks at the other
candidates: a user with three entries and an unrelated question must recall nothing.

The weights are logistic regressions on benchmarks/data/relevance.jsonl; `python -m benchmarks.calibrate` fits and prints them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ModelStatistics:
    """Scores of *unrelated* question and passage pairs under one model, measured once when the model is prepared, on a fixed
    bilingual sample of our own: pooled cosine, and `plain` late interaction (memory/late.py: late_scores, uniform weights,
    vectors packed and unpacked as they are when kept)."""

    pooled_mean: float
    pooled_std: float
    late_mean: float
    late_std: float

    def pooled(self, cosine: float) -> float:
        """Standard deviations above unrelated pairs."""
        return (cosine - self.pooled_mean) / self.pooled_std

    def late(self, score: float) -> float:
        return (score - self.late_mean) / self.late_std


@dataclass(frozen=True, slots=True)
class Features:
    """What is known of one question and one entry. None: could not be measured (no embedder, no token vectors yet)."""

    late: float | None  # standard deviations above unrelated pairs
    pooled: float | None  # the same
    coverage: float  # share of the question's content words that the entry has
    topic: float  # 1 where both touch the same everyday subject
    personal: float  # 1 where the question is about its asker, or asks for advice


Weights = Mapping[str, float]

