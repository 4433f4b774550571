"""Calibration: a probability of relevance that looks at one question and one entry, whatever the model (M1, P18)."""

from dataclasses import replace

import pytest

from memory.calibration import (
    BY_MODEL,
    DEFAULT,
    KEYWORDS_ALONE,
    Features,
    ModelStatistics,
    relevance,
    weights_for,
)

NOTHING = Features(late=0.0, coverage=0.0, topic=False, limit=False, personal=False, crossing=False)


def test_deviations_compare_across_models():
    compressed = ModelStatistics(pooled_mean=0.78, pooled_std=0.05, late_mean=0.11, late_std=0.08)
    spread = ModelStatistics(pooled_mean=0.0, pooled_std=0.1, late_mean=0.3, late_std=0.2)
    assert compressed.pooled(0.88) == pytest.approx(spread.pooled(0.2))
    assert compressed.late(0.27) == pytest.approx(spread.late(0.7))


@pytest.mark.parametrize(
    ("evidence", "recalled"),
    [
        ({}, False),
        ({"late": 2.0}, False),  # one accident in twenty questions
        ({"late": 4.5}, True),
        ({"topic": True, "personal": True}, False),  # a shared subject alone is no answer
        ({"late": 2.5, "topic": True, "personal": True}, True),
        ({"topic": True, "limit": True, "personal": True}, True),  # an allergy and a restaurant
        ({"topic": True, "limit": True, "personal": True, "late": -5.0}, True),
        ({"late": 1.5, "topic": True}, False),
        ({"late": 2.2, "topic": True}, False),
        ({"late": 2.2, "topic": True, "crossing": True}, True),  # Chinese question, English entry
    ],
)
def test_relevance(evidence, recalled):
    assert (relevance(replace(NOTHING, **evidence)) >= 0.5) is recalled


@pytest.mark.parametrize(
    ("evidence", "recalled"),
    [
        ({}, False),
        ({"coverage": 1.0}, True),  # every word that was asked for
        ({"coverage": 0.3}, False),
        ({"coverage": 0.3, "topic": True}, True),
        ({"topic": True}, False),
    ],
)
def test_p37_keywords_alone_have_a_threshold_of_their_own(evidence, recalled):
    without_vectors = replace(NOTHING, late=None, **evidence)
    assert "late" not in without_vectors.inputs()
    assert (relevance(without_vectors) >= 0.5) is recalled
    assert relevance(without_vectors, BY_MODEL[DEFAULT]) == relevance(without_vectors, KEYWORDS_ALONE)


def test_more_evidence_never_lowers_the_probability():
    seen = [relevance(replace(NOTHING, late=deviations)) for deviations in (-9.0, 0.0, 1.0, 3.0, 5.0, 99.0)]
    assert seen == sorted(seen)
    assert seen[0] == seen[1]
    assert seen[-1] == seen[-2]
    assert relevance(replace(NOTHING, coverage=1.0)) > relevance(NOTHING)


def test_every_input_has_a_weight_and_an_unknown_model_has_the_defaults():
    for weights in BY_MODEL.values():
        assert weights.keys() == {"bias", *NOTHING.inputs()}
    assert KEYWORDS_ALONE.keys() == {"bias", *replace(NOTHING, late=None).inputs()}
    assert relevance(NOTHING, BY_MODEL[DEFAULT]) == relevance(NOTHING)
    assert weights_for("somebody/elses-model") is BY_MODEL[DEFAULT]
