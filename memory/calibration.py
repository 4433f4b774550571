"""Calibration: from scores that mean something only for one embedding model to a probability of relevance that means the same for all.

Cosines of one model lie in .78 ... .87 for unrelated texts, those of another around 0, so a fixed threshold on a cosine is
meaningless. What is compared is how far a score lies above the model's own unrelated pairs.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelStatistics:
    """Scores of *unrelated* question and passage pairs under one model, measured once when the model is prepared, on a fixed
    bilingual sample of our own: pooled cosine, and `plain` late interaction (memory/late.py: late_scores, uniform weights,
    vectors packed and unpacked as they are when kept)."""

    pooled_mean: float
    pooled_std: float
    late_mean: float
    late_std: float
