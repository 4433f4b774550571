"""Late interaction: packing to 2 bits, and what the best matches say (L8)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from memory.errors import InvalidInput
from memory.late import LONG_QUESTION, late_scores, max_sim, pack, pack_codes, token_weights, unpack, unpack_codes

DIMENSION = 32
VECTORS = arrays(
    np.float32,
    st.tuples(st.integers(1, 6), st.just(DIMENSION)),
    elements=st.integers(-64, 64).map(lambda n: n / 64),  # exact in float32; zeros and equal magnitudes are frequent
)
CODES = arrays(np.uint8, st.tuples(st.integers(0, 6), st.just(DIMENSION)), elements=st.integers(0, 3))


def unit(*rows: list[float]) -> np.ndarray:
    vectors = np.array(rows, dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        ([1.0, -1.0, 1.0, -1.0], [2, 1, 2, 1]),  # the step is 1.5 mean magnitudes: all are inside it
        ([4.0, -4.0, 0.1, -0.1], [3, 0, 2, 1]),  # two stick out
        ([0.0, -0.0, 0.0, -0.0], [2, 1, 2, 1]),  # even nothing has a sign, so that its negation mirrors
        ([1.0, 1.0, 1.0, 5.0], [2, 2, 2, 3]),
    ],
)
def test_pack_levels(values, codes):
    packed = pack(np.array([values], dtype=np.float32))
    assert packed.dtype == np.uint8
    assert packed.shape == (1, 1)
    assert unpack_codes(packed).tolist() == [codes]


def test_the_first_dimension_is_in_the_lowest_bits():
    assert pack_codes(np.array([[1, 2, 3, 0]], dtype=np.uint8)).tolist() == [[1 + (2 << 2) + (3 << 4)]]


def test_a_dimension_that_does_not_fill_bytes_is_refused():
    with pytest.raises(InvalidInput):
        pack(np.ones((1, 6), dtype=np.float32))


@settings(deadline=None)  # of one example: the machine may be busy
@given(CODES)
def test_codes_survive_packing(codes):
    assert np.array_equal(unpack_codes(pack_codes(codes)), codes)


@settings(deadline=None)  # of one example: the machine may be busy
@given(VECTORS)
def test_unpacked_vectors_have_unit_length_and_pack_again_to_themselves(vectors):
    packed = pack(vectors)
    read = unpack(packed)
    assert read.dtype == np.float32
    assert np.linalg.norm(read, axis=1) == pytest.approx(1.0, abs=1e-5)
    assert np.array_equal(unpack_codes(packed) >= 2, ~np.signbit(read))


@settings(deadline=None)  # of one example: the machine may be busy
@given(VECTORS, st.integers(0, 2**32 - 1))
def test_a_signed_permutation_commutes_with_packing(vectors, seed):
    """memory/seal.py may seal vectors or their packed form: the same bytes come out."""
    rng = np.random.default_rng(seed)
    order, negated = rng.permutation(DIMENSION), rng.random(DIMENSION) < 0.5
    signs = np.where(negated, np.float32(-1), np.float32(1))
    codes = unpack_codes(pack(vectors))[:, order]
    sealed_after = pack_codes(np.where(negated, 3 - codes, codes).astype(np.uint8))
    assert np.array_equal(pack(vectors[:, order] * signs), sealed_after)


def test_two_bits_keep_the_direction():
    vectors = np.random.default_rng(7).standard_normal((200, 384)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert (vectors * unpack(pack(vectors))).sum(axis=1).min() > 0.9


EAST, NORTH, WEST = [1.0, 0, 0, 0], [0, 1.0, 0, 0], [-1.0, 0, 0, 0]


@pytest.mark.parametrize(
    ("question", "entry", "plain", "reverse"),
    [
        ([EAST], [EAST], 1.0, 1.0),
        ([EAST], [EAST, NORTH], 1.0, 0.5),  # the entry says more than was asked
        ([EAST, NORTH], [EAST], 0.5, 1.0),  # the question asks more than the entry says
        ([EAST], [WEST], -1.0, -1.0),
    ],
)
def test_best_matches_from_both_sides(question, entry, plain, reverse):
    scores = late_scores(unit(*question), [unit(*entry)])
    assert scores.plain[0] == pytest.approx(plain)
    assert scores.reverse[0] == pytest.approx(reverse)
    assert scores.order[0] == pytest.approx(plain)  # one candidate: all tokens weigh the same


def test_a_token_that_matches_everything_equally_says_nothing():
    best = np.array([[0.9, 0.9, 0.9], [0.8, 0.2, 0.1]], dtype=np.float32)
    assert token_weights(best) == pytest.approx([0.0, 1.0], abs=1e-6)


@pytest.mark.parametrize("best", [[[0.9], [0.1]], [[0.5, 0.5], [0.2, 0.2]]])
def test_weights_are_uniform_where_nothing_varies(best):
    assert token_weights(np.array(best, dtype=np.float32)) == pytest.approx([0.5, 0.5])


def test_plain_scores_do_not_depend_on_the_other_candidates():
    rng = np.random.default_rng(3)
    question, *entries = (unit(*rng.standard_normal((n, 8)).tolist()) for n in (5, 3, 9, 1))
    together = late_scores(question, entries).plain
    assert together == pytest.approx([late_scores(question, [entry]).plain[0] for entry in entries], abs=1e-6)


def test_nothing_to_compare_scores_nothing():
    none = np.zeros((0, 4), dtype=np.float32)
    assert max_sim(unit(EAST), [none, unit(EAST)]) == pytest.approx([0.0, 1.0])
    assert max_sim(none, [unit(EAST)]).tolist() == [0.0]
    assert max_sim(unit(EAST), []).shape == (0,)


def test_a_long_question_counts_from_both_sides():
    question = unit(*[EAST] * LONG_QUESTION)
    entries = [unit(EAST, NORTH), unit(EAST)]
    assert late_scores(question[:-1], entries).order == pytest.approx([1.0, 1.0])
    assert late_scores(question, entries).order == pytest.approx([1.5, 2.0])
