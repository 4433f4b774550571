"""Grouping by length: everything once, within the budget, and never dearer than one sorted pass or one text at a time."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.padding import padded_groups


def cost(lengths: list[int], groups: list[list[int]], launch: int) -> int:
    return sum(max(lengths[i] for i in group) * len(group) + launch for group in groups)


@pytest.mark.parametrize(
    ("lengths", "budget", "launch", "groups"),
    [
        ([], 100, 10, []),
        ([7], 100, 10, [[0]]),
        ([10, 10, 10], 100, 10, [[0, 1, 2]]),
        ([90, 10, 10], 1000, 10, [[1, 2], [0]]),  # padding 160 tokens would cost more than a second start
        ([12, 10, 11], 1000, 10, [[1, 2, 0]]),  # padding 3 tokens costs less
        ([60, 60, 60], 120, 10, [[0, 1], [2]]),
        ([500], 100, 10, [[0]]),  # longer than the budget: alone
    ],
)
def test_groups(lengths, budget, launch, groups):
    assert padded_groups(lengths, budget, launch) == groups


@given(st.lists(st.integers(1, 600), max_size=60), st.integers(1, 2000), st.integers(0, 100))
def test_each_text_once_and_within_the_budget(lengths, budget, launch):
    groups = padded_groups(lengths, budget, launch)
    assert sorted(i for group in groups for i in group) == list(range(len(lengths)))
    for group in groups:
        assert len(group) == 1 or max(lengths[i] for i in group) * len(group) <= budget
    assert cost(lengths, groups, launch) <= cost(lengths, [[i] for i in range(len(lengths))], launch)


def test_mixed_lengths_are_padded_little():
    rng = random.Random(5)
    lengths = [rng.choice([8, 15, 30, 60, 120, 300]) + rng.randrange(5) for _ in range(400)]
    padded = cost(lengths, padded_groups(lengths, 2048, 16), 0)
    assert padded < 1.03 * sum(lengths)
