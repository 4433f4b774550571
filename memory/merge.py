"""Merge and conflict (L5, L6): what a new candidate does to what is already known of the same user.

It confirms an entry that says the same, retires one whose attribute it changes, or stands beside the others. Unrelated facts never
touch each other (P10). The caller gives only the user's own live entries; nothing here looks any further. What is stored then is
memory/settling.py's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from enum import StrEnum

from memory.calibration import ModelStatistics
from memory.entry import Candidate, Kind, Memory, Source, Status
from memory.ids import MemoryId
from memory.likeness import Difference, difference, frame_overlap, likeness, same_probability, same_value
from memory.policy import MergePolicy
from memory.text import fingerprint

Comparable = tuple[Memory, float | None]
"""An entry and the cosine of its vector with the candidate's; None where there is no vector."""

_EVENTS = frozenset({Kind.EPISODE, Kind.TASK_RESULT})
"""Kinds that happen on a day, and may happen again: the day is part of what they say."""
_SAME_FRAME = 0.8
"""Least overlap, beside numbers and denials, of a sentence and the one that it contradicts without naming an attribute."""


class Outcome(StrEnum):
    STORE = "store"
    CONFIRM = "confirm"
    SUPERSEDE = "supersede"
    REFUSE = "refuse"


class MergeReason(StrEnum):
    """Stable names: they appear in answers and audits."""

    NEW = "new"
    ALREADY_STORED = "already_stored"  # the same request again
    SAME_VALUE = "same_value"  # same attribute, same value
    SAME_TEXT = "same_text"
    SAME_FACT = "same_fact"  # other words, by probability
    CHANGED_VALUE = "changed_value"
    RETRACTED_VALUE = "retracted_value"  # "not A, but B"
    CONTRADICTED = "contradicted"  # same sentence, denied or with the other polarity
    CORRECTED = "corrected"  # an explicit correction of the same sentence
    INFERENCE = "model_inference"  # a model's guess against what the user or a tool said (L4)


@dataclass(frozen=True, slots=True)
class Merge:
    """`target` is the entry that is confirmed (or that was already stored by this very request); `retires` are those whose time is
    over, the closest first. A confirmation may retire as well ("not peanuts, shrimp" where shrimp is known)."""

    outcome: Outcome
    reason: MergeReason
    target: Memory | None = None
    retires: tuple[Memory, ...] = ()


def merge(
    candidate: Candidate,
    existing: Sequence[Comparable],
    policy: MergePolicy,
    statistics: ModelStatistics | None = None,
    *,
    said_at: datetime,
    zone: tzinfo = UTC,
    memory_id: MemoryId | None = None,
) -> Merge:
    """What `candidate`, said at `said_at`, does to the user's own `existing` entries; outdated ones among them are not looked at.

    `zone` is the user's: it says which day an event was on. `memory_id` recognises the same request coming again.
    """
    for memory, _ in existing:
        if memory.id == memory_id:  # whatever became of it since: a late retry must not turn the clock back
            return Merge(Outcome.STORE, MergeReason.ALREADY_STORED, memory)
    live = [(memory, cosine) for memory, cosine in existing if memory.status is not Status.OUTDATED]

    candidate = _named(candidate, [memory for memory, _ in live])
    retires = [(m, reason) for m, _ in live if (reason := _retired_by(candidate, m)) is not None]
    gone = {m.id for m, _ in retires}
    same = _same(candidate, [(m, c) for m, c in live if m.id not in gone], policy, statistics, said_at, zone)
    if candidate.source is Source.MODEL and any(m.source is not Source.MODEL for m, _ in retires):
        return Merge(Outcome.REFUSE, MergeReason.INFERENCE)
    retired = tuple(m for m, _ in sorted(retires, key=lambda pair: pair[0].updated_at, reverse=True))
    if same is not None:
        return Merge(Outcome.CONFIRM, same[1], same[0], retired)
    if retired:
        return Merge(Outcome.SUPERSEDE, retires[0][1], None, retired)
    return Merge(Outcome.STORE, MergeReason.NEW)


def _named(candidate: Candidate, live: Sequence[Memory]) -> Candidate:
    """A correction that leaves out of what it speaks ("my current favourite is Messi") speaks of the one attribute of that sort that is
    known; of several, or of none, nobody can tell."""
    if not candidate.corrects or not candidate.exclusive or candidate.subject is None:
        return candidate
    known = {m.subject for m in live if m.subject is not None and m.subject.startswith(f"{candidate.subject}:")}
    if len(known) != 1 or any(m.subject == candidate.subject for m in live):
        return candidate
    return replace(candidate, subject=known.pop())


def _retired_by(candidate: Candidate, memory: Memory) -> MergeReason | None:
    """Why `candidate` ends the time of `memory`, or None."""
    if candidate.subject is not None and candidate.subject == memory.subject:
        if equal_values(candidate.value, memory.value):
            return None
        if equal_values(candidate.retracts, memory.value):
            return MergeReason.RETRACTED_VALUE
        changed = candidate.exclusive and candidate.value is not None and memory.value is not None
        return MergeReason.CHANGED_VALUE if changed else None
    if (
        candidate.retracts is not None
        and memory.subject == f"preference:{candidate.retracts}"
        and memory.value == "like"
    ):
        return MergeReason.RETRACTED_VALUE  # "switched from coffee to tea": the old liking is another attribute
    if candidate.subject is not None and memory.subject is not None:
        return None
    # One of the two names no attribute: only the sentence itself, said again with one thing changed, speaks for being the same one.
    if candidate.kind in _EVENTS or memory.kind in _EVENTS or candidate.kind is not memory.kind:
        return None
    found = difference(candidate.content, memory.content)
    if found is None or frame_overlap(candidate.content, memory.content) < _SAME_FRAME:
        return None
    if found in (Difference.NEGATION, Difference.POLARITY):
        return MergeReason.CONTRADICTED
    return MergeReason.CORRECTED if candidate.corrects else None


def equal_values(value: str | None, other: str | None) -> bool:
    return value is not None and other is not None and same_value(value, other)


def _same(
    candidate: Candidate,
    live: Sequence[Comparable],
    policy: MergePolicy,
    statistics: ModelStatistics | None,
    said_at: datetime,
    zone: tzinfo,
) -> tuple[Memory, MergeReason] | None:
    """The entry that says what `candidate` says, and how that is known; the surest sign first."""
    comparable = [(m, c) for m, c in live if not _another_day(candidate, m, said_at, zone)]
    own = fingerprint(candidate.content)
    by_probability: list[tuple[float, Memory]] = []
    by_text: Memory | None = None
    for memory, cosine in comparable:
        named = candidate.subject is not None and candidate.subject == memory.subject
        if named and equal_values(candidate.value, memory.value):
            return memory, MergeReason.SAME_VALUE
        if fingerprint(memory.content) == own:
            by_text = by_text or memory
        elif _may_be_the_same(candidate, memory):
            probability = same_probability(likeness(candidate.content, memory.content, cosine, statistics))
            if probability >= policy.same_fact and difference(candidate.content, memory.content) is None:
                by_probability.append((probability, memory))
    if by_text is not None:
        return by_text, MergeReason.SAME_TEXT
    if by_probability:
        return max(by_probability, key=lambda pair: pair[0])[1], MergeReason.SAME_FACT
    return None


def _may_be_the_same(candidate: Candidate, memory: Memory) -> bool:
    """Other words: of the same kind, and not two attributes, or two values of one, that the gate has already told apart."""
    if candidate.kind is not memory.kind:
        return False
    if candidate.subject is None or memory.subject is None:
        return True
    return candidate.subject == memory.subject and (candidate.value is None or memory.value is None)


def _another_day(candidate: Candidate, memory: Memory, said_at: datetime, zone: tzinfo) -> bool:
    """P10: what happened again on another day is another entry. A lasting fact has a day only where both wordings name one, and one
    value at a time has none: "I live in Berlin" said with two dates is still one home."""
    if candidate.kind in _EVENTS and memory.kind in _EVENTS:
        return _day(candidate.valid_from or said_at, zone) != _day(memory.valid_from or memory.created_at, zone)
    if candidate.exclusive or candidate.valid_from is None or memory.valid_from is None:
        return False
    return _day(candidate.valid_from, zone) != _day(memory.valid_from, zone)


def _day(at: datetime, zone: tzinfo) -> str:
    return at.astimezone(zone).date().isoformat()
