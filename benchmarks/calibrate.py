"""Fits the calibration of relevance (memory/calibration.py) on our own bilingual questions, and says how good it is.

    python -m benchmarks.calibrate [--json FILE]

Weights are printed ready to be pasted. Precision and recall are cross-validated: each user is judged by weights that were fitted
without him. A pair is one question with one of that user's entries.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.encoded import EncodedTexts
from memory.calibration import Features
from memory.encoding import Passage
from memory.late import late_scores, unpack
from memory.lexical import coverage, is_personal, question_content
from memory.terms import terms
from memory.text import language
from memory.topics import limits, topics
from models.encoder import Encoder
from models.settings import EncoderSettings

DATA = Path(__file__).parent / "data" / "relevance.jsonl"
RIDGE = 1.0


@dataclass(frozen=True, slots=True)
class Pair:
    user: str
    question: str
    entry: str
    relevant: bool
    features: Features


def pairs(encoder: Encoder, path: Path = DATA) -> list[Pair]:
    """Every question with every entry of its user."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    entries = [line for line in lines if "memory" in line]
    asked = [line for line in lines if "question" in line]
    texts = EncodedTexts(encoder)
    tokens = [unpack(p.tokens) for p in texts.passages([Passage(e["content"]) for e in entries])]
    questions = texts.questions([q["question"] for q in asked])
    found = []
    for question, encoded in zip(asked, questions, strict=True):
        own = [i for i, e in enumerate(entries) if e["user"] == question["user"]]
        late = late_scores(encoded.tokens, [tokens[i] for i in own]).plain
        its_terms, content = terms(question["question"]), question_content(question["question"])
        its_topics, personal = topics(its_terms), is_personal(its_terms)
        for i, score in zip(own, late, strict=True):
            text = entries[i]["content"]
            known = frozenset(terms(text))
            features = Features(
                late=encoder.statistics.late(float(score)),
                coverage=coverage(content, known),
                topic=not its_topics.isdisjoint(topics(known)),
                limit=not its_topics.isdisjoint(limits(known)),
                personal=personal,
                crossing=language(text) != language(question["question"]),
            )
            relevant = entries[i]["memory"] in question["relevant"]
            found.append(Pair(question["user"], question["question"], text, relevant, features))
    return found


def fit(inputs: Sequence[dict[str, float]], relevant: np.ndarray) -> dict[str, float]:
    """Logistic regression by Newton's method, with a ridge of 1 on all but the bias."""
    names = list(inputs[0])
    x = np.array([[1.0, *(row[n] for n in names)] for row in inputs])
    ridge = np.diag([0.0] + [RIDGE] * len(names))
    weights = np.zeros(x.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-x @ weights))
        gradient = x.T @ (relevant - p) - ridge @ weights
        step = np.linalg.solve((x * (p * (1 - p))[:, None]).T @ x + ridge, gradient)
        weights += step
        if np.abs(step).max() < 1e-9:
            break
    return dict(zip(["bias", *names], weights.tolist(), strict=True))


def predicted(inputs: Sequence[dict[str, float]], weights: dict[str, float]) -> np.ndarray:
    logits = [weights["bias"] + sum(weights[n] * v for n, v in row.items()) for row in inputs]
    probabilities: np.ndarray = 1 / (1 + np.exp(-np.array(logits)))
    return probabilities


def cross_validated(inputs: Sequence[dict[str, float]], relevant: np.ndarray, users: Sequence[str]) -> np.ndarray:
    """Probabilities, each user's from weights that never saw him."""
    probabilities = np.zeros(len(inputs))
    for user in sorted(set(users)):
        inside = np.array([u == user for u in users])
        weights = fit([row for row, out in zip(inputs, ~inside, strict=True) if out], relevant[~inside])
        probabilities[inside] = predicted([row for row, here in zip(inputs, inside, strict=True) if here], weights)
    return probabilities


THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7)


@dataclass(frozen=True, slots=True)
class Quality:
    """Cross-validated, at one threshold. `false_alarms`: questions that need nothing and recall something."""

    vectors: bool
    threshold: float
    precision: float
    recall: float
    false_alarms: int
    unrelated: int


def qualities(found: Sequence[Pair], probabilities: np.ndarray, vectors: bool) -> list[Quality]:
    relevant = np.array([pair.relevant for pair in found])
    questions = {(pair.user, pair.question) for pair in found}
    unrelated = questions - {(pair.user, pair.question) for pair in found if pair.relevant}
    rows = []
    for threshold in THRESHOLDS:
        taken = probabilities >= threshold
        alarmed = {(pair.user, pair.question) for pair, took in zip(found, taken, strict=True) if took} & unrelated
        hits = int((taken & relevant).sum())
        precision, recall = hits / max(int(taken.sum()), 1), hits / int(relevant.sum())
        rows.append(Quality(vectors, threshold, precision, recall, len(alarmed), len(unrelated)))
    return rows


def main(
    out: Annotated[Path | None, typer.Option("--json", help="Write weights and figures there, too.")] = None,
) -> None:
    console = Console()
    encoder = Encoder.load(EncoderSettings())
    found = pairs(encoder)
    relevant = np.array([float(pair.relevant) for pair in found])
    users = [pair.user for pair in found]
    report: dict[str, object] = {"model": encoder.card.name, "pairs": len(found), "relevant": int(relevant.sum())}
    table = Table(
        title=f"Relevance, {len(found)} pairs of {len(set(users))} users, each judged by weights fitted without him"
    )
    for heading in ("evidence", "threshold", "precision", "recall", "unrelated questions that recall something"):
        table.add_column(heading, justify="right")
    for name, vectors in ((encoder.card.name, True), ("keywords alone", False)):
        inputs = [(pair.features if vectors else replace(pair.features, late=None)).inputs() for pair in found]
        weights = {key: round(value, 2) for key, value in fit(inputs, relevant).items()}
        console.print(f"{name}: {weights}")
        rows = qualities(found, cross_validated(inputs, relevant, users), vectors)
        for row in rows:
            alarms = f"{row.false_alarms} of {row.unrelated}"
            table.add_row(name, f"{row.threshold:.1f}", f"{row.precision:.3f}", f"{row.recall:.3f}", alarms)
        report[name] = {"weights": weights, "quality": [asdict(row) for row in rows]}
    console.print(table)
    if out:
        out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
