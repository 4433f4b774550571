"""Ranking: the three formulas of the source documents, decay by kind (L7)."""

from dataclasses import replace
from datetime import timedelta

import pytest

from memory.entry import Kind
from memory.policy import DecayRates, RankingFormula, RecallPolicy
from memory.ranking import DAY, decay, rank_score
from tests.memory.entries import NOW, entry


@pytest.mark.parametrize(
    ("age", "rate", "weight"),
    [
        (0 * DAY, 0.01, 1.00),
        (60 * DAY, 0.01, 0.55),
        (180 * DAY, 0.01, 0.17),
        (180 * DAY, 0.00, 1.00),  # preferences do not fade
        (-1 * DAY, 0.01, 1.00),  # clock skew is not youth beyond new
    ],
)
def test_l7_decay(age, rate, weight):
    assert decay(age, rate) == pytest.approx(weight, abs=0.005)


@pytest.mark.parametrize(
    ("formula", "kind", "days", "score"),
    [
        (RankingFormula.PRODUCT, Kind.TASK_RESULT, 0, 0.8 * 1.0 * 0.6),
        (RankingFormula.PRODUCT, Kind.TASK_RESULT, 60, 0.8 * 0.5488 * 0.6),
        (RankingFormula.PRODUCT, Kind.PREFERENCE, 600, 0.8 * 1.0 * 0.6),
        (RankingFormula.RECENCY, Kind.TASK_RESULT, 60, 0.5 * 0.8 + 0.3 * 0.5488 + 0.2 * 0.9),
        (RankingFormula.IMPORTANCE, Kind.TASK_RESULT, 60, 0.6 * 0.8 + 0.3 * 0.9 + 0.1 * 0.5488),
        (RankingFormula.IMPORTANCE, Kind.CONSTRAINT, 600, 0.6 * 0.8 + 0.3 * 0.9 + 0.1),
    ],
)
def test_l7_formulas(formula, kind, days, score):
    memory = entry("m", "x", kind=kind, confidence=0.6, importance=0.9, updated_at=NOW - timedelta(days=days))
    assert rank_score(memory, 0.8, RecallPolicy(formula=formula), NOW) == pytest.approx(score, abs=1e-4)


def test_l7_decay_rates_are_the_tenants_choice():
    policy = RecallPolicy(decay=DecayRates(preference=0.01))
    old = entry("m", "x", kind=Kind.PREFERENCE, confidence=1.0, updated_at=NOW - 60 * DAY)
    assert rank_score(old, 1.0, policy, NOW) == pytest.approx(0.5488, abs=1e-4)


def test_p17_a_date_that_an_entry_speaks_of_is_not_its_age():
    old = entry("m", "用户 2026 年要去日本", kind=Kind.FACT, updated_at=NOW - 300 * DAY)
    soon = replace(old, valid_from=NOW + 30 * DAY)
    assert rank_score(soon, 0.7, RecallPolicy(), NOW) == rank_score(old, 0.7, RecallPolicy(), NOW)
