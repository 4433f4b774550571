"""What an embedding model gives and is: shapes shared by models, storage and rules."""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
"""float32 [dimension], unit length."""
TokenVectors = NDArray[np.float32]
"""float32 [tokens, dimension], centred by the model's mean and unit length, one row a token."""
PackedTokens = NDArray[np.uint8]
"""uint8 [tokens, dimension / 4]: 2 bits a dimension (see memory/late.py)."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A text to remember, with what was said just before it. Only the text's own tokens are kept ("late chunking")."""

    text: str
    context: str = ""


@dataclass(frozen=True, slots=True)
class EncodedQuery:
    pooled: Vector
    tokens: TokenVectors  # of the question's body: without prefix and special tokens


@dataclass(frozen=True, slots=True)
class EncodedPassage:
    """`pooled` is of the text alone (without context); `tokens` are of the text within its context, packed."""

    pooled: Vector
    tokens: PackedTokens


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What identifies a prepared model. Two cards that differ in any field are two models, and their vectors never meet (P18)."""

    name: str
    dimension: int
    max_tokens: int
    query_prefix: str
    passage_prefix: str
    means_digest: str

    @property
    def key(self) -> str:
        """Short and safe for a file or collection name; changes with every field."""
        digest = hashlib.blake2b(repr(self).encode(), digest_size=5).hexdigest()
        stem = "".join(c if c.isalnum() else "_" for c in self.name)[:40]
        return f"{stem}_{self.dimension}_{digest}"
