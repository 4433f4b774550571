"""Merge and conflict (L5, L6): what a new candidate does to what is already known of the same user.

It confirms an entry that says the same, retires one whose attribute it changes, or stands beside the others. Unrelated facts never
touch each other (P10). The caller gives only the user's own live entries; nothing here looks any further.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from functools import lru_cache

from memory.calibration import ModelStatistics
from memory.entry import Candidate, Kind, Memory, Source, Status
from memory.ids import MemoryId, SessionId, TurnId, UserId
from memory.likeness import Difference, difference, frame_overlap, likeness, same_probability, same_value
from memory.policy import MergePolicy
from memory.terms import content_terms
from memory.text import fingerprint
from memory.verdict import Decision

Comparable = tuple[Memory, float | None]
"""An entry and the cosine of its vector with the candidate's; None where there is no vector."""

_EVENTS = frozenset({Kind.EPISODE, Kind.TASK_RESULT})
"""Kinds that happen on a day, and may happen again: the day is part of what they say."""
_SAME_FRAME = 0.8
"""Least overlap, beside numbers and denials, of a sentence and the one that it contradicts without naming an attribute."""

_SHARED_WORDS = 0.3
"""Least share of the shorter text's content words in the other, for a comparison to be worth its milliseconds."""


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


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a candidate comes from. `memory_id` is the id that it gets if it is new, derived from the request (P34)."""

    memory_id: MemoryId
    user_id: UserId
    said_at: datetime
    session_id: SessionId | None = None
    turn_ids: tuple[TurnId, ...] = ()
    context_turn_ids: tuple[TurnId, ...] = ()


@dataclass(frozen=True, slots=True)
class Settled:
    """What shall be stored: at most one new entry, at most one confirmed one, and those retired, each as it is from now on."""

    decision: Decision
    reason: MergeReason
    memory_id: MemoryId | None
    inserted: Memory | None = None
    confirmed: Memory | None = None
    retired: tuple[Memory, ...] = ()

    @property
    def superseded_id(self) -> MemoryId | None:
        return self.retired[0].id if self.retired else None

    @property
    def changed(self) -> tuple[Memory, ...]:
        return tuple(m for m in (*self.retired, self.confirmed, self.inserted) if m is not None)


# --- what it does -----------------------------------------------------------------------------------------------------


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
        if _equal(candidate.value, memory.value):
            return None
        if _equal(candidate.retracts, memory.value):
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


def _equal(value: str | None, other: str | None) -> bool:
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
        if named and _equal(candidate.value, memory.value):
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


# --- what is stored ---------------------------------------------------------------------------------------------------


def settle(
    candidate: Candidate, merged: Merge, origin: Origin, policy: MergePolicy, *, review: bool = False
) -> Settled:
    """The entries as they are from now on. With `review` (L17) a new entry waits as `pending`, retires nothing until it is approved, and
    a confirmation keeps the wording that was reviewed."""
    match merged.outcome:
        case Outcome.REFUSE:
            return Settled(Decision.REJECTED, merged.reason, None)
        case Outcome.STORE if merged.target is not None:
            return Settled(Decision.STORED, merged.reason, merged.target.id)
        case Outcome.CONFIRM if merged.target is not None:
            confirmed = _confirmed(merged.target, candidate, origin, policy, keep_wording=review)
            unchanged = confirmed == merged.target
            return Settled(
                Decision.CONFIRMED,
                merged.reason,
                confirmed.id,
                confirmed=None if unchanged else confirmed,
                retired=() if review else _retired(merged.retires, candidate, origin),
            )
    inserted = Memory(
        id=origin.memory_id,
        user_id=origin.user_id,
        kind=candidate.kind,
        content=candidate.content,
        source=candidate.source,
        status=Status.PENDING if review else Status.ACTIVE,
        language=candidate.language,
        importance=candidate.importance,
        confidence=policy.start_confidence,
        version=1,
        created_at=origin.said_at,
        updated_at=origin.said_at,
        subject=_subject(candidate, merged.retires),
        value=candidate.value,
        exclusive=candidate.exclusive,
        entities=candidate.entities,
        session_id=origin.session_id,
        turn_ids=origin.turn_ids,
        context_turn_ids=origin.context_turn_ids,
        valid_from=candidate.valid_from,
        supersedes=merged.retires[0].id if merged.retires else None,
        metadata=candidate.metadata,
    )
    retired = () if review else _retired(merged.retires, candidate, origin)
    decision = Decision.SUPERSEDED if retired else Decision.WAITING if review else Decision.STORED
    return Settled(decision, merged.reason, inserted.id, inserted=inserted, retired=retired)


def _subject(candidate: Candidate, retires: Sequence[Memory]) -> str | None:
    """The candidate's, or the fuller name of the attribute whose value it changed."""
    fuller = next((m.subject for m in retires if m.subject and m.subject.startswith(f"{candidate.subject}:")), None)
    return fuller or candidate.subject


def _confirmed(
    memory: Memory, candidate: Candidate, origin: Origin, policy: MergePolicy, *, keep_wording: bool
) -> Memory:
    if origin.turn_ids and set(origin.turn_ids) <= set(memory.turn_ids):
        return memory  # the same turn again: a retry, or one thing said twice in a breath (P34)
    seen = replace(
        memory,
        hit_count=memory.hit_count + 1,
        updated_at=max(memory.updated_at, origin.said_at),
        turn_ids=(*memory.turn_ids, *(turn for turn in origin.turn_ids if turn not in memory.turn_ids)),
    )
    if candidate.source is Source.MODEL and memory.source is not Source.MODEL:
        return seen  # L4: a model's agreement adds nothing to what was said
    seen = replace(
        seen,
        confidence=min(1.0, round(memory.confidence + policy.confirm_step, 6)),
        importance=max(memory.importance, candidate.importance),
        source=candidate.source if memory.source is Source.MODEL else memory.source,
        entities=(*memory.entities, *(entity for entity in candidate.entities if entity not in memory.entities)),
        subject=memory.subject or candidate.subject,
        value=memory.value if memory.subject else candidate.value,
        exclusive=memory.exclusive or candidate.exclusive,
    )
    if keep_wording or candidate.content == memory.content:
        return seen
    return replace(
        seen,
        content=candidate.content,
        language=candidate.language,
        version=memory.version + 1,
        context_turn_ids=origin.context_turn_ids,
    )


def _retired(memories: Sequence[Memory], candidate: Candidate, origin: Origin) -> tuple[Memory, ...]:
    return tuple(
        replace(
            memory,
            status=Status.OUTDATED,
            valid_to=_end(memory, candidate, origin),
            updated_at=max(memory.updated_at, origin.said_at),
        )
        for memory in memories
    )


def _end(memory: Memory, candidate: Candidate, origin: Origin) -> datetime:
    """When the new value began to hold, if that is known and after the old one began; else when it was said."""
    begun = candidate.valid_from
    if begun is not None and (memory.valid_from is None or begun > memory.valid_from):
        return begun
    return origin.said_at


def _worth_comparing(candidate: Candidate, memory: Memory, cosine: float | None, memory_id: MemoryId) -> bool:
    """A cheap look before a careful one, so that an import of hundreds does not compare each with each: entries that share an
    attribute, a vector's neighbourhood or words. Nothing that shares none of them could say the same or contradict."""
    if cosine is not None or memory.id == memory_id:
        return True
    if candidate.subject is not None and memory.subject is not None:
        return candidate.subject.partition(":")[0] == memory.subject.partition(":")[0]
    ours, theirs = _words(candidate.content), _words(memory.content)
    return len(ours & theirs) >= _SHARED_WORDS * min(len(ours), len(theirs))


@lru_cache(maxsize=4096)
def _words(text: str) -> frozenset[str]:
    return frozenset(content_terms(text))


def _no_cosine(number: int, memory_id: MemoryId) -> float | None:
    return None


def merge_in_order(
    proposals: Sequence[tuple[Candidate, Origin]],
    known: Sequence[Memory],
    policy: MergePolicy,
    statistics: ModelStatistics | None = None,
    *,
    cosine: Callable[[int, MemoryId], float | None] = _no_cosine,
    zone: tzinfo = UTC,
    review: bool = False,
) -> list[Settled]:
    """Each proposal against what is known after those before it, so that one turn that says a thing twice makes one entry, and one that
    corrects itself keeps the correction (P11: the same rule whatever tier an entry comes from).

    `cosine(number, memory_id)` is that of proposal `number` with an entry, None where unknown. Store the changes in this order.
    """
    now_known = {memory.id: memory for memory in known}
    settled = []
    for number, (candidate, origin) in enumerate(proposals):
        existing = [
            (memory, near)
            for memory in now_known.values()
            if _worth_comparing(candidate, memory, near := cosine(number, memory.id), origin.memory_id)
        ]
        replayed = next((memory for memory in known if _confirmed_before(memory, candidate, origin)), None)
        if replayed is not None:
            settled.append(Settled(Decision.CONFIRMED, MergeReason.ALREADY_STORED, replayed.id))
            continue
        merged = merge(
            candidate, existing, policy, statistics, said_at=origin.said_at, zone=zone, memory_id=origin.memory_id
        )
        result = settle(candidate, merged, origin, policy, review=review)
        now_known.update((memory.id, memory) for memory in result.changed)
        settled.append(result)
    return settled


def _confirmed_before(memory: Memory, candidate: Candidate, origin: Origin) -> bool:
    """Whether `memory` is one that this very turn confirmed when the request first came, and that was retired since."""
    if (
        memory.status is not Status.OUTDATED
        or memory.id == origin.memory_id
        or not origin.turn_ids
        or not set(origin.turn_ids) <= set(memory.turn_ids)
    ):
        return False
    named = (
        candidate.subject is not None and candidate.subject == memory.subject and _equal(candidate.value, memory.value)
    )
    return named or fingerprint(candidate.content) == fingerprint(memory.content)
