"""The gate's goals on our own labelled sentences: precision at least .95, recall at least .80, on both halves and in both languages."""

import pytest

from benchmarks.gate import GOALS, cases, scored


@pytest.fixture(scope="module")
def scores():
    return scored()


@pytest.mark.parametrize("part", ["dev", "test", "zh", "en", "dev zh", "dev en", "test zh", "test en"])
def test_precision_and_recall(scores, part):
    assert scores[part].precision >= GOALS["precision"]
    assert scores[part].recall >= GOALS["recall"]


def test_the_data_are_enough_and_no_sentence_counts_twice():
    texts = [(case.language, case.role, case.text) for case in cases()]
    assert len(texts) == len(set(texts)) >= 500
    for language in ("zh", "en"):
        assert sum(case.language == language for case in cases()) >= 220
