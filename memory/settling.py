"""What a merge leaves to be stored (L5, L6): the new entry, the confirmed one, the retired ones, each as it is from now on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from functools import lru_cache

from memory.calibration import ModelStatistics
from memory.entry import Candidate, Memory, Source, Status
from memory.ids import MemoryId, SessionId, TurnId, UserId
from memory.merge import Merge, MergeReason, Outcome, equal_values, merge
from memory.policy import MergePolicy
from memory.terms import content_terms
from memory.text import fingerprint
from memory.verdict import Decision

_SHARED_WORDS = 0.3
"""Least share of the shorter text's content words in the other, for a comparison to be worth its milliseconds."""


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
        candidate.subject is not None
        and candidate.subject == memory.subject
        and equal_values(candidate.value, memory.value)
    )
    return named or fingerprint(candidate.content) == fingerprint(memory.content)
