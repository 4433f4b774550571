"""How well two entries that say the same are told from two that do not: `python -m benchmarks.merge [--fit] [--held-out] [--no-vectors]`.

Reads benchmarks/data/same_fact.jsonl (pairs of entries, Chinese and English: the same in other words, a changed value, another number,
denied, related, unrelated) and prints precision and recall of "the same" at the default threshold, as the merge decides it without
knowing any attribute: probability and no difference. `--fit` also fits the weights of memory/likeness.py anew and prints them, with
the figures of a ten-fold cross-validation in which all pairs that share a sentence lie in one fold. `--held-out` reads
same_fact_held_out.jsonl instead: pairs written after the weights were first set. They have been looked at once: their one
mistake (two surnames in one sentence) brought the rule that an exchanged word is a changed value, and the lower bias
without vectors.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from rich.console import Console
from rich.table import Table

from memory.encoding import Passage
from memory.likeness import Likeness, Weights, difference, likeness, same_probability
from memory.policy import MergePolicy

LABELS = ("same", "changed", "number", "negation", "related", "unrelated")
FOLDS = 10
RIDGE = 0.05


@dataclass(frozen=True, slots=True)
class Pair:
    language: str
    label: str
    first: str
    second: str

    @property
    def same(self) -> bool:
        return self.label == "same"


def read_pairs(name: str = "same_fact") -> list[Pair]:
    lines = (files("benchmarks") / "data" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [Pair(**json.loads(line)) for line in lines]


def likenesses(pairs: Sequence[Pair], vectors: bool) -> list[Likeness]:
    """Of each pair; with vectors, cosines are of the default model's pooled passage vectors, as an index gives them."""
    if not vectors:
        return [likeness(pair.first, pair.second, None, None) for pair in pairs]
    from benchmarks.encoded import EncodedTexts
    from models.encoder import Encoder, EncoderSettings

    encoder = Encoder.load(EncoderSettings())
    texts = sorted({text for pair in pairs for text in (pair.first, pair.second)})
    encoded = EncodedTexts(encoder).passages([Passage(text) for text in texts])
    vector = {text: passage.pooled for text, passage in zip(texts, encoded, strict=True)}
    return [
        likeness(pair.first, pair.second, float(vector[pair.first] @ vector[pair.second]), encoder.statistics)
        for pair in pairs
    ]


def fit(likes: Sequence[Likeness], same: Sequence[bool]) -> Weights:
    """Ridge logistic regression by Newton's method; the bias is not penalised."""
    names = list(likes[0].inputs())
    inputs = np.array([[1.0, *like.inputs().values()] for like in likes])
    target = np.array(same, dtype=float)
    weights = np.zeros(inputs.shape[1])
    penalty = np.diag([0.0, *[RIDGE] * len(names)])
    for _ in range(100):
        probability = 1.0 / (1.0 + np.exp(-inputs @ weights))
        gradient = inputs.T @ (probability - target) + penalty @ weights
        curvature = (inputs * (probability * (1 - probability))[:, None]).T @ inputs + penalty
        step = np.linalg.solve(curvature, gradient)
        weights = weights - step
        if np.abs(step).max() < 1e-9:
            break
    return {"bias": round(float(weights[0]), 2)} | {
        n: round(float(w), 2) for n, w in zip(names, weights[1:], strict=True)
    }


def decide(pairs: Sequence[Pair], likes: Sequence[Likeness], weights: Weights | None, threshold: float) -> list[bool]:
    return [
        same_probability(like, weights) >= threshold and difference(pair.first, pair.second) is None
        for pair, like in zip(pairs, likes, strict=True)
    ]


def cross_validated(pairs: Sequence[Pair], likes: Sequence[Likeness], threshold: float) -> list[bool]:
    folds = _folds(pairs)
    said = [False] * len(pairs)
    for fold in range(FOLDS):
        train = [i for i, f in enumerate(folds) if f != fold and difference(pairs[i].first, pairs[i].second) is None]
        test = [i for i, f in enumerate(folds) if f == fold]
        weights = fit([likes[i] for i in train], [pairs[i].same for i in train])
        answers = decide([pairs[i] for i in test], [likes[i] for i in test], weights, threshold)
        for i, answer in zip(test, answers, strict=True):
            said[i] = answer
    return said


def _folds(pairs: Sequence[Pair]) -> list[int]:
    """Pairs that share a sentence share a fold."""
    group: dict[str, int] = {}
    folds = []
    for pair in pairs:
        known = group.get(pair.first, group.get(pair.second))
        fold = len(group) % FOLDS if known is None else known
        group[pair.first] = group[pair.second] = fold
        folds.append(fold)
    return folds


def report(console: Console, title: str, pairs: Sequence[Pair], said: Sequence[bool]) -> None:
    table = Table(title=title)
    for column in ("language", "pairs", "precision", "recall", *(f"{label} taken for same" for label in LABELS[1:])):
        table.add_column(column, justify="right")
    for language in ("zh", "en", "both"):
        rows = [(p, s) for p, s in zip(pairs, said, strict=True) if language in (p.language, "both")]
        hits = sum(s and p.same for p, s in rows)
        precision = hits / max(1, sum(s for _, s in rows))
        recall = hits / max(1, sum(p.same for p, _ in rows))
        mistaken = [
            f"{sum(s for p, s in rows if p.label == label)}/{sum(p.label == label for p, _ in rows)}"
            for label in LABELS[1:]
        ]
        table.add_row(language, str(len(rows)), f"{precision:.3f}", f"{recall:.3f}", *mistaken)
    console.print(table)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fit", action="store_true", help="fit the weights anew and cross-validate")
    parser.add_argument("--no-vectors", action="store_true", help="words alone; needs no model")
    parser.add_argument("--errors", action="store_true", help="print each pair that was decided wrongly")
    parser.add_argument("--held-out", action="store_true", help="the pairs that no weight was fitted on")
    options = parser.parse_args(arguments)
    console = Console(width=150)
    pairs, threshold = read_pairs("same_fact_held_out" if options.held_out else "same_fact"), MergePolicy().same_fact
    for vectors in (False,) if options.no_vectors else (False, True):
        name = "words and vectors" if vectors else "words alone"
        likes = likenesses(pairs, vectors)
        said = decide(pairs, likes, None, threshold)
        report(console, f"{name}, weights as shipped, threshold {threshold}", pairs, said)
        if options.fit:
            clear = [i for i, pair in enumerate(pairs) if difference(pair.first, pair.second) is None]
            console.print("fitted:", fit([likes[i] for i in clear], [pairs[i].same for i in clear]))
            report(console, f"{name}, {FOLDS}-fold cross-validation", pairs, cross_validated(pairs, likes, threshold))
        if options.errors:
            for pair, like, same in zip(pairs, likes, said, strict=True):
                if same != pair.same:
                    console.print(
                        f"{same_probability(like):.2f} {pair.label:9} {pair.first} | {pair.second}", highlight=False
                    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
