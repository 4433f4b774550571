"""Late interaction: a question is compared with an entry token by token, and the best matches are counted (L8).

Token vectors are centred by the model's mean and of unit length (memory/encoding.py). At rest they take 2 bits a dimension:
code 0..3 stands for the levels -1.5, -.5, .5, 1.5 times a step of 1.5 mean absolute values. The step is not kept: a vector is
normalised again when it is read. Code c of a negated value is 3 - c, exactly, so that a signed permutation (memory/seal.py) of
packed vectors equals the packing of the permuted vectors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory.encoding import PackedTokens, TokenVectors
from memory.errors import InvalidInput

Scores = NDArray[np.float32]
"""float32 [candidates]"""
Codes = NDArray[np.uint8]
"""uint8 [tokens, dimension], each 0..3"""

PER_BYTE: Final = 4
STEP: Final = 1.5
LONG_QUESTION: Final = 64
"""Tokens from which a question is scored from both sides: in a whole dialogue most tokens have no counterpart in any one entry,
but all of a relevant entry's tokens have one in the dialogue."""

_SHIFTS = np.array([0, 2, 4, 6], dtype=np.uint8)
_LEVELS = np.array([-1.5, -0.5, 0.5, 1.5], dtype=np.float32)
_CODES_OF_BYTE: Codes = (np.arange(256, dtype=np.uint8)[:, None] >> _SHIFTS) & np.uint8(3)
_LEVELS_OF_BYTE: TokenVectors = _LEVELS[_CODES_OF_BYTE]
_FOUR_LEVELS: NDArray[np.complex128] = _LEVELS_OF_BYTE.view(np.complex128).reshape(256)
"""The same four floats of a byte as one element of 16 bytes, which numpy looks up several times faster than a row of four."""
_SQUARE_OF_BYTE = np.square(_LEVELS_OF_BYTE).sum(axis=1)


def pack_codes(codes: Codes) -> PackedTokens:
    """uint8 [n, d] of 0..3 -> uint8 [n, d / 4]. Dimension 4 i + j is in bits 2 j and 2 j + 1 of byte i."""
    count, dimension = codes.shape
    if dimension % PER_BYTE:
        raise InvalidInput("tokens", f"use a dimension that is a multiple of {PER_BYTE}, not {dimension}")
    shifted = codes.reshape(count, dimension // PER_BYTE, PER_BYTE) << _SHIFTS
    packed: PackedTokens = np.bitwise_or.reduce(shifted, axis=2).astype(np.uint8)
    return packed


def unpack_codes(packed: PackedTokens) -> Codes:
    """uint8 [n, d / 4] -> uint8 [n, d] of 0..3: the inverse of `pack_codes`."""
    return _CODES_OF_BYTE[packed].reshape(packed.shape[0], packed.shape[1] * PER_BYTE)


def pack(tokens: TokenVectors) -> PackedTokens:
    """float32 [n, d] -> uint8 [n, d / 4]. Their lengths are lost, their directions kept to 2 bits a dimension."""
    magnitude = np.abs(tokens, dtype=np.float64)  # float64: a sum in any order gives the same step
    outer = magnitude > STEP * magnitude.mean(axis=1, keepdims=True)
    # By the sign bit and not by `< 0`: -0.0 is the negation of 0.0, and their codes must mirror as all others do.
    return pack_codes(np.where(np.signbit(tokens), 1 - outer, 2 + outer).astype(np.uint8))


def unpack(packed: PackedTokens) -> TokenVectors:
    """uint8 [n, d / 4] -> float32 [n, d], unit length."""
    vectors, norms = _levels(packed)
    return vectors / norms[:, None]


def _levels(packed: PackedTokens) -> tuple[TokenVectors, NDArray[np.float32]]:
    """The vectors by their levels, float32 [n, d], and their lengths, float32 [n]."""
    vectors = _FOUR_LEVELS.take(packed).view(np.float32).reshape(packed.shape[0], packed.shape[1] * PER_BYTE)
    return vectors, np.sqrt(_SQUARE_OF_BYTE.take(packed).sum(axis=1))


@dataclass(frozen=True, slots=True)
class LateScores:
    """How each candidate answers a question, each float32 [candidates], higher is better.

    `order` puts the candidates in order. `plain` weighs all of the question's tokens alike, so that it means the same however many
    other candidates there are: what a calibrated threshold may look at. `reverse` is from the entry's side: the mean over its
    tokens of their best match in the question.
    """

    order: Scores
    plain: Scores
    reverse: Scores


def token_weights(best: NDArray[np.float32]) -> NDArray[np.float32]:
    """Weights [question tokens], of sum 1, from best matches [question tokens, candidates].

    The standard deviation over the candidates: a token that matches everything equally tells nothing apart. Uniform where
    nothing varies (a single candidate).
    """
    spread = best.std(axis=1) if best.shape[1] > 1 else np.zeros(best.shape[0], dtype=np.float32)
    total = float(spread.sum())
    if total <= 1e-6 * best.shape[0]:
        return np.full(best.shape[0], 1.0 / best.shape[0], dtype=np.float32)
    weights: NDArray[np.float32] = (spread / np.float32(total)).astype(np.float32)
    return weights


def late_scores(question: TokenVectors, candidates: Sequence[TokenVectors | PackedTokens]) -> LateScores:
    """All three scores from one matrix product. A candidate without tokens, and a question without, score 0. Candidates come as they
    are kept, or unpacked.

    `order` is the weighted mean of the question's best matches; a long question (a whole dialogue) counts from both sides.
    """
    order, plain, reverse = (np.zeros(len(candidates), dtype=np.float32) for _ in range(3))
    filled = [i for i, tokens in enumerate(candidates) if len(tokens)]
    if filled and len(question):
        lengths = np.array([len(candidates[i]) for i in filled])
        starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
        similarity = _similarity(question, [candidates[i] for i in filled])
        best = np.maximum.reduceat(similarity, starts, axis=1)
        plain[filled] = best.mean(axis=0)
        reverse[filled] = np.add.reduceat(similarity.max(axis=0), starts) / lengths
        order[filled] = token_weights(best) @ best
        if len(question) >= LONG_QUESTION:
            order += reverse
    return LateScores(order, plain, reverse)


def _similarity(question: TokenVectors, candidates: Sequence[TokenVectors | PackedTokens]) -> NDArray[np.float32]:
    """float32 [question tokens, tokens of all candidates]"""
    packed = [tokens.astype(np.uint8, copy=False) for tokens in candidates if tokens.dtype == np.uint8]
    if len(packed) < len(candidates):
        return question @ np.concatenate([unpack(t) if t.dtype == np.uint8 else t for t in candidates]).T  # type: ignore[arg-type]
    vectors, lengths = _levels(np.concatenate(packed))
    # the products are divided by the lengths, and not the vectors: there are fewer of them
    similarity: NDArray[np.float32] = (question @ vectors.T) / lengths
    return similarity


def max_sim(question: TokenVectors, candidates: Sequence[TokenVectors]) -> Scores:
    """float32 [candidates]: the order of relevance, as `late_scores` makes it."""
    return late_scores(question, candidates).order
