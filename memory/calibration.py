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
    """What is known of one question and one entry."""

    late: float | None  # standard deviations above unrelated pairs; None: no vectors to compare
    coverage: float  # share of the question's subject that the entry has (memory/lexical.py)
    topic: bool  # both touch the same everyday subject (memory/topics.py)
    limit: bool  # the entry says what does not fit the user in a topic of the question: an allergy, and a meal
    personal: bool  # the question is about its asker, asks for advice or makes plans (memory/lexical.py)
    crossing: bool  # question and entry are in two languages, where all scores are lower

    def inputs(self) -> dict[str, float]:
        """What the regression sees, by name. Below the mean of unrelated pairs, and far above it, more says no more.

        A limit counts wherever its topic is touched, however little its words resemble the question's.
        """
        semantic = {} if self.late is None else {"late": 0.0 if self.limit else min(max(self.late, 0.0), LATE_MOST)}
        return semantic | {
            "coverage": self.coverage,
            "topic": float(self.topic),
            "limit": float(self.limit),
            "personal": float(self.personal),
            "crossing": float(self.crossing),
        }


LATE_MOST: Final = 5.0

Weights = Mapping[str, float]
"""One weight for each of `Features.inputs`, and a "bias"."""

# As printed by `python -m benchmarks.calibrate`.
BY_MODEL: Final[Mapping[str, Weights]] = {
    "multilingual-e5-small": {
        "bias": -6.48,
        "late": 1.58,
        "coverage": 1.48,
        "topic": 2.55,
        "limit": 3.47,
        "personal": 1.06,
        "crossing": 0.98,
    },
}
KEYWORDS_ALONE: Final[Weights] = {
    "bias": -4.74,
    "coverage": 6.14,
    "topic": 3.54,
    "limit": 1.2,
    "personal": 0.71,
    "crossing": 0.37,
}
DEFAULT: Final = "multilingual-e5-small"


def relevance(features: Features, weights: Weights | None = None) -> float:
    """Probability in (0, 1) that the entry is of use for the question. None: the default model's weights.

    Where there are no vectors, keywords have weights of their own.
    """
    if features.late is None:
        weights = KEYWORDS_ALONE
    elif weights is None:
        weights = BY_MODEL[DEFAULT]
    logit = weights["bias"]
    for name, value in features.inputs().items():
        logit += weights[name] * value
    return 1.0 / (1.0 + math.exp(-logit))


def weights_for(model: str) -> Weights:
    """Those fitted for the model; for one that nobody has fitted, the default's: deviations compare across models."""
    return BY_MODEL.get(model, BY_MODEL[DEFAULT])
