"""Fusion: scores of different kinds become one order; duplicates become one entry (L8, P10)."""

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.fusion import folded, rrf, scaled, weighted
from tests.memory.entries import entry

NAN = float("nan")


def column(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


@pytest.mark.parametrize(
    ("scores", "floor", "expected"),
    [
        ((1, 3, 2), None, (0, 1, 0.5)),
        ((1, NAN, 2), None, (0, 0, 1)),  # not found is as little as the worst
        ((0.8, 1.0), 0.0, (0.8, 1.0)),  # both are far above what means nothing
        ((0.8,), 0.0, (1.0,)),
        ((-0.5, 0.5), 0.0, (0.0, 1.0)),
        ((2, 2), None, (0, 0)),  # equal scores tell nothing apart
        ((NAN, NAN), None, (0, 0)),
        ((), None, ()),
    ],
)
def test_min_max(scores, floor, expected):
    assert scaled(column(*scores), floor) == pytest.approx(expected)


def test_weighted_mean_of_scaled_scores():
    assert weighted([column(1, 0), column(0, 1)], [1.0, 0.45]) == pytest.approx([1 / 1.45, 0.45 / 1.45])
    assert weighted([column(1, 0)], [0.0]) == pytest.approx([0, 0])


def test_reciprocal_ranks():
    fused = rrf([column(9, 5, NAN), column(2, NAN, 1)], [1.0, 1.0])
    assert fused == pytest.approx([1.0, 61 / 62 / 2, 61 / 62 / 2])
    assert rrf([column(1, 1)], [0.0]) == pytest.approx([0, 0])


def test_equal_scores_share_a_rank():
    assert rrf([column(3, 3, 1)], [1.0]) == pytest.approx([1, 1, 61 / 63])


@settings(deadline=None)
@given(st.lists(st.one_of(st.integers(0, 5).map(float), st.just(NAN)), min_size=1, max_size=8), st.randoms())
def test_fusion_does_not_depend_on_the_order_of_candidates(scores, random):
    places = list(range(len(scores)))
    random.shuffle(places)
    given_order, shuffled = column(*scores), column(*(scores[i] for i in places))
    assert rrf([given_order], [1.0])[places] == pytest.approx(rrf([shuffled], [1.0]))
    assert scaled(given_order, 1.0)[places] == pytest.approx(scaled(shuffled, 1.0))


MAY, JUNE = datetime(2026, 5, 1, tzinfo=UTC), datetime(2026, 6, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("better", "worse", "kept"),
    [
        (entry("a", "用户喜欢茶"), entry("a", "用户喜欢绿茶"), ["a"]),  # one id
        (entry("a", "用户喜欢茶。"), entry("b", "用户喜欢茶"), ["a"]),  # the same words
        (entry("a", "The user likes tea."), entry("b", "the user likes  tea"), ["a"]),
        (
            entry("a", "用户搬到了柏林", subject="home", value="berlin"),
            entry("b", "The user lives in Berlin.", subject="home", value="berlin"),
            ["a"],
        ),
        (
            entry("a", "The user lives in Berlin.", subject="home", value="berlin"),
            entry("b", "The user lives in Munich.", subject="home", value="munich"),
            ["a", "b"],
        ),
        (entry("a", "用户喜欢茶"), entry("b", "用户喜欢咖啡"), ["a", "b"]),
        (entry("a", "预算是 2000 元"), entry("b", "预算是 3000 元"), ["a", "b"]),
        (entry("a", "x", subject="home"), entry("b", "y", subject="home"), ["a", "b"]),  # no value, nothing said
    ],
)
def test_folding(better, worse, kept):
    assert [memory.id for memory, _ in folded([(better, 1), (worse, 2)])] == kept


def test_p10_the_same_words_on_another_date_are_another_event():
    visits = [entry("a", "用户去看了牙医", valid_from=MAY), entry("b", "用户去看了牙医", valid_from=JUNE)]
    assert len(folded([(visit, None) for visit in visits])) == 2


def test_folding_goes_through_what_was_folded():
    """b is a's wording, c is b's value: all three are one."""
    a = entry("a", "用户住在柏林")
    b = entry("b", "用户住在柏林。", subject="home", value="berlin")
    c = entry("c", "The user lives in Berlin.", subject="home", value="berlin")
    assert [memory.id for memory, _ in folded([(a, None), (b, None), (c, None)])] == ["a"]
