"""How much of the evidence recall finds: LoCoMo (English) and MADial-Bench (Chinese), beside BM25, dense and their fusion.

    python -m benchmarks.recall --data DIR [--json FILE]

The real encoder, analyzer, packing (2 bits) and second stage run; storage is left out, candidates come as from an index: 50 by
pooled vector, 50 by keywords of the entry and, at a lower weight, of the turn before it. No session or speaker features.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.datasets import Asked, Collection, Unit, locomo, madial
from benchmarks.encoded import EncodedTexts
from memory.calibration import ModelStatistics
from memory.encoding import EncodedPassage, EncodedQuery, Passage
from memory.entry import Kind, Memory, Source, Status
from memory.fusion import rrf
from memory.ids import MemoryId, UserId
from memory.late import unpack
from memory.left_context import CONTEXT_CHARS
from memory.lexical import Bm25, document
from memory.policy import RecallPolicy
from memory.recall import Found, Question, recall
from memory.terms import terms
from memory.text import language
from models.encoder import Encoder
from models.settings import EncoderSettings
from models.tokens import counter_for

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BUDGET = 1024
DEPTHS = (5, 10, 20)
POLICY = RecallPolicy(threshold=0.0, limit=50, standing=0)
"""Everything is ranked, nothing cut: the metrics are of the order alone. All entries have the same age and confidence."""


class Searchable:
    """One collection, encoded and indexed."""

    def __init__(self, collection: Collection, passages: Sequence[EncodedPassage]) -> None:
        self.units = collection.units
        own = [terms(unit.text) for unit in self.units]
        before = [terms(unit.before[-1]) if unit.before else [] for unit in self.units]
        self.bm25 = Bm25([document(t) for t in own])
        self.window_bm25 = Bm25([document(t, b) for t, b in zip(own, before, strict=True)])
        self.pooled = np.stack([p.pooled for p in passages])
        self.tokens = [unpack(p.tokens) for p in passages]
        self.memories = [_memory(i, unit.text) for i, unit in enumerate(self.units)]


def _memory(place: int, text: str) -> Memory:
    return Memory(
        id=MemoryId(f"m{place:06}"),
        user_id=UserId("user"),
        kind=Kind.FACT,
        content=text,
        source=Source.USER,
        status=Status.ACTIVE,
        language=language(text),
        importance=0.5,
        confidence=1.0,
        version=1,
        created_at=NOW,
        updated_at=NOW,
    )


def _order(scores: np.ndarray) -> list[int]:
    return [int(i) for i in np.argsort(-scores, kind="stable")]


def by_bm25(index: Searchable, asked: Asked, encoded: EncodedQuery, statistics: ModelStatistics) -> list[int]:
    return _order(index.bm25.scores(terms(asked.text)))


def by_dense(index: Searchable, asked: Asked, encoded: EncodedQuery, statistics: ModelStatistics) -> list[int]:
    return _order(index.pooled @ encoded.pooled)


def by_rrf(index: Searchable, asked: Asked, encoded: EncodedQuery, statistics: ModelStatistics) -> list[int]:
    dense = (index.pooled @ encoded.pooled).astype(np.float64)
    return _order(rrf([index.bm25.scores(terms(asked.text)), dense], [1.0, 1.0]))


def by_recall(
    index: Searchable,
    asked: Asked,
    encoded: EncodedQuery,
    statistics: ModelStatistics,
    policy: RecallPolicy = POLICY,
) -> list[int]:
    """The two arms of an index, then memory/recall.py."""
    cosine = index.pooled @ encoded.pooled
    bm25 = index.window_bm25.scores(terms(asked.text))
    near = _order(cosine)[: policy.vector_candidates]
    named = [i for i in _order(bm25)[: policy.keyword_candidates] if bm25[i] > 0]
    found = [
        Found(
            index.memories[i],
            tokens=index.tokens[i],
            cosine=float(cosine[i]) if i in near else None,
            bm25=float(bm25[i]) if i in named else None,
        )
        for i in sorted({*near, *named})
    ]
    ranked = recall(Question(asked.text, encoded), found, policy, statistics, NOW)
    return [int(r.memory.id[1:]) for r in ranked]


Search = Callable[[Searchable, Asked, EncodedQuery, ModelStatistics], list[int]]
METHODS: dict[str, Search] = {"BM25": by_bm25, "dense": by_dense, "BM25 + dense, RRF": by_rrf, "recall": by_recall}


def evidence(units: Sequence[Unit], order: Sequence[int], gold: frozenset[str], costs: Sequence[int]) -> list[float]:
    """Share of the gold found in the first 5, 10, 20, and in what fits into the budget when it is filled from the top."""
    found = [len({units[i].id for i in order[:k]} & gold) / len(gold) for k in DEPTHS]
    left, fits = BUDGET, set()
    for i in order:
        left -= costs[i]
        if left < 0:
            break
        fits.add(units[i].id)
    return [*found, len(fits & gold) / len(gold)]


def interval(values: np.ndarray, rounds: int = 1000) -> tuple[float, float]:
    """95 % bootstrap interval of the mean."""
    draws = np.random.default_rng(0).integers(0, len(values), (rounds, len(values)))
    low, high = np.percentile(values[draws].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


@dataclass(frozen=True, slots=True)
class Result:
    """Means over `questions`: R@5, R@10, R@20, evidence within the budget; the interval is of R@10."""

    data: str
    method: str
    questions: int
    at_5: float
    at_10: float
    at_20: float
    in_budget: float
    at_10_interval: tuple[float, float]
    ms_a_question: float


def measure(
    name: str, collections: Sequence[Collection], encoder: Encoder, methods: dict[str, Search]
) -> Iterator[Result]:
    texts = EncodedTexts(encoder)
    count = counter_for("gpt-4o")
    prepared = []
    for collection in collections:
        passages = [Passage(u.text, "\n".join(u.before)[-CONTEXT_CHARS:]) for u in collection.units]
        index = Searchable(collection, texts.passages(passages))
        costs = [count(u.text) for u in collection.units]
        asked = list(zip(collection.questions, texts.questions([q.text for q in collection.questions]), strict=True))
        prepared.append((index, costs, asked))
    for method, search in methods.items():
        rows, started = [], time.perf_counter()
        for index, costs, asked in prepared:
            for question, encoded in asked:
                order = search(index, question, encoded, encoder.statistics)
                rows.append(evidence(index.units, order, question.gold, costs))
        spent = time.perf_counter() - started
        table = np.array(rows)
        at_5, at_10, at_20, in_budget = (float(v) for v in table.mean(axis=0))
        yield Result(
            name, method, len(rows), at_5, at_10, at_20, in_budget, interval(table[:, 1]), 1000 * spent / len(rows)
        )


SETS: dict[str, tuple[str, Callable[[Path], Iterator[Collection]]]] = {
    "LoCoMo 1-4": ("locomo", locomo),
    "MADial zh": ("madial_zh", madial),
}


def main(
    data: Annotated[Path, typer.Option(help="Folder with the sets: locomo/, madial_zh/.")],
    out: Annotated[Path | None, typer.Option("--json", help="Write the figures there, too.")] = None,
) -> None:
    console = Console(width=max(Console().width, 118))
    encoder = Encoder.load(EncoderSettings())
    table = Table(title=f"Evidence recall, {encoder.card.name}, equal k")
    for heading in ("data", "method", "N", "R@5", "R@10", "R@20", f"in {BUDGET} tokens", "R@10, 95 %", "ms/question"):
        table.add_column(heading, justify="left" if heading in ("data", "method") else "right", no_wrap=True)
    results = []
    for name, (folder, load) in SETS.items():
        if not (data / folder).is_dir():
            console.print(f"{name}: no folder {folder} in the data folder, left out")
            continue
        for result in measure(name, list(load(data / folder)), encoder, METHODS):
            results.append(result)
            low, high = result.at_10_interval
            figures = (result.at_5, result.at_10, result.at_20, result.in_budget)
            table.add_row(
                name,
                result.method,
                str(result.questions),
                *(f"{v:.3f}" for v in figures),
                f"{low:.3f} .. {high:.3f}",
                f"{result.ms_a_question:.1f}",
            )
    console.print(table)
    if out:
        out.write_text(json.dumps([asdict(r) for r in results], indent=1) + "\n", encoding="utf-8")
    if not results:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
