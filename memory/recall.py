"""Recall's second stage, pure: of the candidates that an index found, which few does this question need? (L7, L8)

Late interaction and keywords are fused into an order; a calibrated probability decides what is relevant at all; the
tenant's formula weighs age, confidence and importance; what says the same is folded; and the best few are left.
Service and benchmark call the same function.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from typing import Final

import numpy as np

from memory.analysis import Analysis, analysed
from memory.calibration import Features, ModelStatistics, Weights, relevance
from memory.encoding import EncodedQuery, PackedTokens, TokenVectors
from memory.entry import Kind, Memory, Source, Status
from memory.fusion import Scores, folded, rrf, scaled, weighted
from memory.late import LONG_QUESTION, late_scores
from memory.lexical import Bm25, Unit, coverage, document, is_personal, question_content
from memory.policy import Fusion, RecallPolicy
from memory.ranking import age, decay, rank_score
from memory.terms import terms
from memory.text import language
from memory.topics import limiting, topics, touching

_ANSWERING: Final = "answering"
"""The topic of entries that say how the assistant shall answer."""


@dataclass(frozen=True)
class Question:
    """What is asked. `encoded` is None while the embedder is down; its token vectors must be sealed as the candidates' are. `analysed`
    are the text's terms, where somebody has made them already."""

    text: str
    encoded: EncodedQuery | None = None
    analysed: Sequence[str] | None = None

    @cached_property
    def terms(self) -> Sequence[str]:
        return terms(self.text) if self.analysed is None else self.analysed

    @cached_property
    def content(self) -> tuple[Unit, ...]:
        return question_content(self.text)

    @cached_property
    def touching(self) -> frozenset[str]:
        """Terms that put an entry on a topic of the question."""
        return touching(topics(self.terms))

    @cached_property
    def limiting(self) -> frozenset[str]:
        """Terms by which an entry says what does not fit the user, in a topic of the question."""
        return limiting(topics(self.terms))

    @cached_property
    def language(self) -> str:
        return language(self.text)

    @cached_property
    def personal(self) -> bool:
        return is_personal(self.terms)


@dataclass(frozen=True)
class Found:
    """A candidate, and what is known of it. `tokens` are still sealed, packed as they are kept or not; None where the row waits for
    the index. `cosine` and `bm25` are the index's, each None where that arm did not list the entry. With `unindexed` neither arm could
    have. `analysis` is made here where the row brought none."""

    memory: Memory
    tokens: TokenVectors | PackedTokens | None = None
    cosine: float | None = None
    bm25: float | None = None
    unindexed: bool = False
    analysis: Analysis | None = None

    @property
    def words(self) -> Analysis:
        if self.analysis is None:
            object.__setattr__(self, "analysis", analysed(self.memory.content, self.memory.subject))
        return self.analysis  # type: ignore[return-value]

    @property
    def language(self) -> str:
        return self.memory.language or language(self.memory.content)

    @property
    def about(self) -> frozenset[str]:
        """The entry's terms and those of the attribute that it sets: "用户是一名程序员" sets `job`."""
        terms = frozenset(self.words.terms)
        return terms.union(self.words.subject) if self.words.subject else terms

    @property
    def standing(self) -> bool:
        """Whether the entry says how the assistant shall answer ("always in Chinese", "回答要简洁"): a preference or constraint of
        that topic, said by the user. Whatever is asked, leaving it out makes the user say it again (M1)."""
        said = self.memory.source is Source.USER and self.memory.status is Status.ACTIVE
        if not said or self.memory.kind not in (Kind.PREFERENCE, Kind.CONSTRAINT):
            return False
        return not self.about.isdisjoint(touching([_ANSWERING]))


@dataclass(frozen=True, slots=True)
class Recalled:
    """`score` orders, `probability` is that of being relevant, `parts` explains both, `why` says it in words."""

    memory: Memory
    score: float
    probability: float
    parts: dict[str, float] = field(hash=False)
    why: str


def _column(values: Sequence[float | None]) -> Scores:
    return np.array([np.nan if v is None else v for v in values], dtype=np.float64)


def _keywords(question: Question, found: Sequence[Found]) -> Scores:
    """BM25 of the index; for rows that wait for it (P37) our own, on the scale of the rows that have both."""
    indexed = _column([0.0 if f.bm25 is None else f.bm25 for f in found])
    waiting = np.array([f.unindexed and f.bm25 is None for f in found], dtype=bool)
    if waiting.any():
        own = Bm25([document(f.words.terms) for f in found]).scores(question.terms)
        both = (indexed > 0) & (own > 0)
        scale = float(np.median(indexed[both] / own[both])) if both.any() else 1.0
        indexed[waiting] = own[waiting] * scale
    return indexed


def _late(question: Question, found: Sequence[Found]) -> tuple[Scores, Scores, Scores]:
    """(order, plain, reverse) of memory/late.py; NaN where there is nothing to compare."""
    order, plain, reverse = (np.full(len(found), np.nan) for _ in range(3))
    have = {i: f.tokens for i, f in enumerate(found) if f.tokens is not None and len(f.tokens)}
    if question.encoded is None or not len(question.encoded.tokens) or not have:
        return order, plain, reverse
    scores = late_scores(question.encoded.tokens, list(have.values()))
    places = list(have)
    order[places], plain[places], reverse[places] = scores.order, scores.plain, scores.reverse
    return order, plain, reverse


def similarities(late: Scores, keywords: Scores, policy: RecallPolicy, unrelated: float | None) -> Scores:
    """Late interaction and keywords as one similarity in [0, 1], by the policy's fusion; NaN in `late`: keywords alone count.

    `unrelated` is what an unrelated pair scores: where all candidates are good, the last of them is not called worthless.
    """
    if policy.fusion is Fusion.RRF:
        ranks = [late, np.where(keywords > 0, keywords, np.nan)]
        return rrf(ranks, [1.0, policy.keyword_weight])
    by_words = scaled(keywords, floor=0.0)
    fused = weighted([scaled(late, floor=unrelated), by_words], [1.0, policy.keyword_weight])
    missing = np.isnan(late)
    fused[missing] = by_words[missing]
    return fused


def recall(
    question: Question,
    found: Sequence[Found],
    policy: RecallPolicy,
    statistics: ModelStatistics | None,
    now: datetime,
    zone: tzinfo = UTC,
    weights: Weights | None = None,
) -> list[Recalled]:
    """At most `policy.limit` entries, best first, fewer rather than more, in an order that does not depend on that of `found`.

    Without `question.encoded` or `statistics`, keywords alone decide, by a calibration of their own (P37). `weights` are those
    of the embedding model (memory/calibration.py: weights_for); None are the default model's. Up to `policy.standing` entries
    that say how to answer are of use to any question and come last, beside what was found.
    """
    wanted = [f for f in found if f.memory.kind in policy.kinds and f.memory.status is not Status.PENDING]
    if not policy.enabled or not policy.limit or not wanted:
        return []
    wanted.sort(key=lambda f: f.memory.id)
    late, plain, reverse = _late(question, wanted)
    keywords = _keywords(question, wanted)
    # A long question's score has two sides, on another scale than one side's unrelated pairs.
    long = question.encoded is not None and len(question.encoded.tokens) >= LONG_QUESTION
    unrelated = None if statistics is None or long else statistics.late_mean
    similarity = similarities(late, keywords, policy, unrelated)
    judged = []
    for i, (one, likeness, match) in enumerate(zip(wanted, similarity.tolist(), plain.tolist(), strict=True)):
        features = _features(question, one, match, statistics)
        probability = relevance(features, weights)
        if probability < policy.threshold and not one.standing:
            continue
        if features.limit:  # an allergy resembles no question about dinner, and still belongs on top
            likeness = max(likeness, probability)
        score = rank_score(one.memory, likeness, policy, now)
        judged.append(_Judged(i, one, features, likeness, score, probability))
    judged.sort(key=lambda j: (-j.score, -j.probability, j.found.memory.id))
    relevant = [(j.found.memory, j) for j in judged if j.probability >= policy.threshold]
    standing = [(j.found.memory, j) for j in judged if j.probability < policy.threshold]
    kept = folded(relevant, policy.limit)
    room = min(policy.standing, policy.limit - len(kept))
    answer = []
    for memory, chosen in folded([*kept, *standing], len(kept) + room):
        measured = {
            "similarity": chosen.similarity,
            "late": float(late[chosen.place]),
            "late_plain": float(plain[chosen.place]),
            "late_reverse": float(reverse[chosen.place]),
            "cosine": math.nan if chosen.found.cosine is None else chosen.found.cosine,
            "keywords": float(keywords[chosen.place]),
            "freshness": decay(age(memory, now), policy.decay.of(memory.kind)),
            "confidence": memory.confidence,
            "importance": memory.importance,
            **{f"relevance {name}": value for name, value in chosen.features.inputs().items()},
        }
        parts = {name: round(value, 6) for name, value in measured.items() if not math.isnan(value)}
        answer.append(Recalled(memory, chosen.score, chosen.probability, parts, _why(chosen, zone)))
    return answer


@dataclass(frozen=True, slots=True)
class _Judged:
    place: int
    found: Found
    features: Features
    similarity: float
    score: float
    probability: float


def _features(question: Question, found: Found, plain: float, statistics: ModelStatistics | None) -> Features:
    late = None if statistics is None or math.isnan(plain) else statistics.late(plain)
    about = found.about
    return Features(
        late=late,
        coverage=coverage(question.content, frozenset(found.words.terms) if found.words.subject else about),
        topic=not question.touching.isdisjoint(about),
        limit=not question.limiting.isdisjoint(about),
        personal=question.personal,
        crossing=question.language != found.language,
    )


_SAID_BY: Final = {
    Source.USER: "said by the user",
    Source.TOOL: "verified by a tool",
    Source.MODEL: "inferred by a model",
}


def _why(judged: _Judged, zone: tzinfo) -> str:
    """The evidence in words, none of them the user's."""
    features, memory = judged.features, judged.found.memory
    evidence = [
        ("similar meaning", features.late is not None and features.late >= 1.0),
        ("shared words", features.coverage > 0.0),
        ("same topic", features.topic),
        ("how to answer", judged.found.standing),
    ]
    found = ", ".join(words for words, holds in evidence if holds) or "weak evidence"
    return f"{found}; {_SAID_BY[memory.source]} on {memory.created_at.astimezone(zone):%Y-%m-%d}"
