"""Sealing: equal under one key, nothing alike under two, and never drawn otherwise than today."""

import hashlib
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.errors import InvalidInput
from memory.late import pack, unpack
from memory.seal import Permutation, permutation, seal_packed, seal_term, seal_tokens, seal_vector

KEY = bytes(range(32))
OTHER = bytes(range(1, 33))


def unit(rows: int, dimension: int = 384, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((rows, dimension)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_golden_values_hold_the_rule():
    """An index outlives this code: if this test fails, every stored index is unreadable. Do not change the values."""
    assert seal_term("berlin", KEY) == "kqxqujqlg4zj"
    assert seal_term("北京", KEY) == "6xvsajoxufx2"
    assert seal_term("", KEY) == "n57scpfgxjwg"
    assert Permutation.draw(KEY, 8).order.tolist() == [6, 2, 3, 1, 7, 5, 0, 4]
    assert Permutation.draw(KEY, 8).signs.tolist() == [1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 1.0, 1.0]
    drawn = Permutation.draw(KEY, 384)
    assert drawn.order[:12].tolist() == [202, 127, 349, 347, 146, 52, 277, 94, 276, 372, 214, 220]
    laid_out = drawn.order.astype("<u4").tobytes() + (drawn.signs < 0).astype("u1").tobytes()
    assert hashlib.sha256(laid_out).hexdigest() == "7843fab29306e7f02ddbd0c09080fe3dd953635c5818582b6ca0bc3718ce7f12"


@pytest.mark.parametrize(
    "term", ["berlin", "北京", "don't", "2,000", "c++", "x" * 1_000, "ü", "\ud800".encode("utf-8", "replace").decode()]
)
def test_a_sealed_term_is_one_plain_token(term):
    sealed = seal_term(term, KEY)
    assert re.fullmatch(r"[a-z2-7]{12}", sealed)
    assert sealed == seal_term(term, KEY)
    assert sealed != seal_term(term, OTHER)
    assert sealed != seal_term(term + " ", KEY)


def test_no_two_of_many_terms_meet():
    assert (
        len({seal_term(f"term{n}", KEY) for n in range(20_000)} | {seal_term(f"term{n}", OTHER) for n in range(20_000)})
        == 40_000
    )


@pytest.mark.parametrize("dimension", [1, 2, 3, 64, 384, 1024])
def test_a_permutation_moves_every_dimension_once(dimension):
    drawn = Permutation.draw(KEY, dimension)
    assert sorted(drawn.order.tolist()) == list(range(dimension))
    assert set(drawn.signs.tolist()) <= {1.0, -1.0}
    assert drawn.order.dtype == np.intp and drawn.signs.dtype == np.float32


def test_orders_and_signs_are_drawn_evenly():
    """Over 4,800 keys each of the 24 orders of four dimensions comes about 200 times, each sign half the time (5 sigma)."""
    counts: dict[tuple[int, ...], int] = {}
    negative = 0
    for n in range(4_800):
        drawn = Permutation.draw(hashlib.sha256(n.to_bytes(4, "big")).digest(), 4)
        order = tuple(drawn.order.tolist())
        counts[order] = counts.get(order, 0) + 1
        negative += int((drawn.signs < 0).sum())
    assert len(counts) == math.factorial(4)
    assert all(abs(count - 200) < 5 * math.sqrt(200) for count in counts.values())
    assert abs(negative - 9_600) < 5 * math.sqrt(19_200 / 4)


def test_dimensions_have_draws_of_their_own():
    assert Permutation.draw(KEY, 384).order[:64].tolist() != Permutation.draw(KEY, 385).order[:64].tolist()


def test_inner_products_are_kept_within_a_key():
    plain = unit(50)
    sealed = seal_tokens(plain, KEY)
    assert np.abs(sealed @ sealed.T - plain @ plain.T).max() < 2e-6
    assert np.array_equal(seal_vector(plain[7], KEY), sealed[7])
    assert sealed.dtype == np.float32


def test_nothing_compares_between_keys():
    """Entries about one thing, as near to each other as an e5 model puts them (.7 and more)."""
    near = unit(1)[0] * 3 + unit(60, seed=1)
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    assert (near @ near.T).min() > 0.7
    foreign = seal_tokens(near, KEY) @ seal_tokens(near, OTHER).T
    assert np.abs(foreign).max() < 0.4


def test_packed_tokens_are_sealed_in_place():
    tokens = unit(40)
    tokens[0, :10] = 0.0
    tokens[1, :10] = -0.0
    assert np.array_equal(pack(seal_tokens(tokens, KEY)), seal_packed(pack(tokens), KEY))
    similarity = unpack(pack(tokens)) @ tokens.T
    sealed = unpack(seal_packed(pack(tokens), KEY)) @ seal_tokens(tokens, KEY).T
    assert np.abs(similarity - sealed).max() < 2e-6


@given(st.integers(0, 20), st.binary(min_size=32, max_size=32), st.integers(0, 2**32 - 1))
def test_packing_and_sealing_commute(rows, key, seed):
    tokens = unit(rows, 32, seed)
    assert np.array_equal(pack(seal_tokens(tokens, key)), seal_packed(pack(tokens), key))


def test_a_kept_permutation_cannot_be_changed():
    with pytest.raises(ValueError):
        permutation(KEY, 384).order[0] = 0


@pytest.mark.parametrize("key", [b"", b"short", bytes(64)])
def test_a_key_of_another_length_is_refused(key):
    with pytest.raises(InvalidInput):
        seal_term("berlin", key)
    with pytest.raises(InvalidInput):
        seal_vector(unit(1)[0], key)


def test_no_dimension_is_refused():
    with pytest.raises(InvalidInput):
        Permutation.draw(KEY, 0)
