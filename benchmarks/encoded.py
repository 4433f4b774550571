"""Texts encoded once by the real encoder and kept in the cache folder, so that a rerun of a benchmark takes seconds."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.progress import Progress

from memory.encoding import EncodedPassage, EncodedQuery, Passage
from models.encoder import Encoder
from models.settings import strata_home

BATCH = 64


class EncodedTexts:
    """Both sides of a data set under one model. The key of a file is the model's card and the digest of every text in it."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._folder = strata_home() / "benchmarks" / encoder.card.key

    def passages(self, passages: Sequence[Passage]) -> list[EncodedPassage]:
        path = self._path("passages", [[p.text, p.context] for p in passages])
        if not path.exists():
            found: list[EncodedPassage] = []
            with Progress(transient=True) as progress:
                for start in progress.track(range(0, len(passages), BATCH), description="encoding entries"):
                    found += self._encoder.encode_passages(list(passages[start : start + BATCH]))
            _save(path, [p.pooled for p in found], [p.tokens for p in found])
        return [EncodedPassage(pooled, tokens) for pooled, tokens in _load(path)]

    def questions(self, texts: Sequence[str]) -> list[EncodedQuery]:
        path = self._path("questions", list(texts))
        if not path.exists():
            found: list[EncodedQuery] = []
            with Progress(transient=True) as progress:
                for start in progress.track(range(0, len(texts), BATCH), description="encoding questions"):
                    found += self._encoder.encode_queries(list(texts[start : start + BATCH]))
            _save(path, [q.pooled for q in found], [q.tokens for q in found])
        return [EncodedQuery(pooled, tokens) for pooled, tokens in _load(path)]

    def _path(self, side: str, texts: Sequence[str | list[str]]) -> Path:
        digest = hashlib.blake2b(json.dumps(list(texts)).encode(), digest_size=8).hexdigest()
        return self._folder / f"{side}-{digest}.npz"


def _save(path: Path, pooled: list[np.ndarray], tokens: list[np.ndarray]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part.npz")
    np.savez(part, pooled=np.stack(pooled), tokens=np.concatenate(tokens), lengths=[len(t) for t in tokens])
    part.replace(path)


def _load(path: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    with np.load(path) as kept:
        ends = np.cumsum(kept["lengths"])[:-1]
        return list(zip(kept["pooled"], np.split(kept["tokens"], ends), strict=True))
