"""Sealing: what an index may see of a user's words and vectors ("The index is blind" in the design).

Under one key, equal terms stay equal and inner products stay what they are, so that BM25 and cosines rank as before; under two
keys nothing compares. It is a second wall behind the user filter and not encryption: counts and lengths remain visible.

The permutation is drawn from a BLAKE2b counter stream by a rule that is written out here, because an index outlives every
library's random generator. Golden values in the tests hold it: change the rule, and every index must be rebuilt.
"""

import hashlib
import itertools
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from memory.encoding import PackedTokens, TokenVectors, Vector
from memory.errors import InvalidInput
from memory.late import pack_codes, unpack_codes

KEY_BYTES = 32
TERM_LENGTH = 12
"""Characters of a sealed term: 60 bits. Among a million terms of a user two collide with a chance of 4 in 10 million."""

_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"
_PAIRS = [first + second for first in _BASE32 for second in _BASE32]
_SHIFTS = range(54, 3, -10)
_TERM_USE = b"strata.term"
_VECTOR_USE = b"strata.vector"
_CACHED_PERMUTATIONS = 2_048  # about 4.6 kB each at 384 dimensions


def checked_key(key: bytes) -> bytes:
    """`key`, or InvalidInput: exactly 32 bytes."""
    if len(key) != KEY_BYTES:
        raise InvalidInput("key", f"use {KEY_BYTES} bytes")
    return key


def seal_term(term: str, key: bytes) -> str:
    """The first 12 characters of base32(BLAKE2b(term, key)), lower-case: a-z and 2-7 only, so that no index parts it."""
    digest = hashlib.blake2b(term.encode(), key=checked_key(key), digest_size=32, person=_TERM_USE).digest()
    bits = int.from_bytes(
        digest[:8], "big"
    )  # the first 60 are the 12 characters; base64.b32encode takes four times as long
    return "".join([_PAIRS[bits >> shift & 1023] for shift in _SHIFTS])


def _stream(key: bytes, dimension: int) -> Iterator[bytes]:
    """Blocks of 64 bytes without end: BLAKE2b(dimension as 4 bytes, counter as 8 bytes, both little-endian; key)."""
    for counter in itertools.count():
        message = dimension.to_bytes(4, "little") + counter.to_bytes(8, "little")
        yield hashlib.blake2b(message, key=key, digest_size=64, person=_VECTOR_USE).digest()


def _words(blocks: Iterator[bytes]) -> Iterator[int]:
    """Unsigned 32-bit numbers, little-endian."""
    for block in blocks:
        yield from struct.unpack("<16I", block)


@dataclass(frozen=True, slots=True)
class Permutation:
    """A signed permutation: sealed[j] = signs[j] * plain[order[j]]. `order` intp [dimension], `signs` float32 [dimension] of +1, -1."""

    order: NDArray[np.intp]
    signs: NDArray[np.float32]

    @classmethod
    def draw(cls, key: bytes, dimension: int) -> "Permutation":
        """Uniformly from `key`: the order by Fisher-Yates from the end, each draw by rejection; then a word a sign, its lowest bit."""
        if dimension < 1:
            raise InvalidInput("dimension", "use at least 1")
        words = _words(_stream(checked_key(key), dimension))
        order = list(range(dimension))
        for last in range(dimension - 1, 0, -1):
            choices = last + 1
            fair = (1 << 32) - (1 << 32) % choices  # numbers from here on would favour the first choices
            number = next(word for word in words if word < fair)
            chosen = number % choices
            order[last], order[chosen] = order[chosen], order[last]
        signs = [1.0 - 2.0 * (next(words) & 1) for _ in range(dimension)]
        drawn = cls(np.array(order, dtype=np.intp), np.array(signs, dtype=np.float32))
        drawn.order.setflags(write=False)
        drawn.signs.setflags(write=False)
        return drawn


@lru_cache(maxsize=_CACHED_PERMUTATIONS)
def permutation(key: bytes, dimension: int) -> Permutation:
    """`Permutation.draw`, kept for the keys in use. `permutation.cache_clear()` forgets them, keys included (erasure)."""
    return Permutation.draw(key, dimension)


def seal_tokens(tokens: TokenVectors, key: bytes) -> TokenVectors:
    """float32 [n, dimension] -> the same shape; inner products within one key are unchanged but for rounding."""
    drawn = permutation(key, tokens.shape[-1])
    sealed: TokenVectors = tokens[..., drawn.order] * drawn.signs
    return sealed


def seal_vector(vector: Vector, key: bytes) -> Vector:
    """float32 [dimension] -> the same shape and length."""
    return seal_tokens(vector, key)


def seal_packed(packed: PackedTokens, key: bytes) -> PackedTokens:
    """uint8 [n, dimension / 4] -> the same shape: pack(seal_tokens(x)) == seal_packed(pack(x)), bit for bit."""
    codes = unpack_codes(packed)
    drawn = permutation(key, codes.shape[1])
    flips = np.where(drawn.signs < 0, np.uint8(3), np.uint8(0))  # the code of a negated value is 3 - c, which is c ^ 3
    return pack_codes(codes[:, drawn.order] ^ flips)
