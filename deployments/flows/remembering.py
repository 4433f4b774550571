"""The write path after the gate: compare with the user's own entries, decide, and write it all in one transaction.

SQL is the truth: what was written is answered, the index follows (Curator). Vectors help to recognise a rewording; without
an embedder or an index the words alone decide, and the answer says so.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from deployments.edge.caller import Caller
from deployments.services import Services
from deployments.zones import zone_of
from memory.encoding import EncodedPassage, Passage
from memory.entry import Candidate, Memory
from memory.errors import StrataError
from memory.ids import MemoryId, TurnId
from memory.left_context import context_text
from memory.merge import MergeReason
from memory.scope import system_scope
from memory.settling import Origin, Settled, merge_in_order
from memory.terms import terms
from memory.text import fingerprint
from memory.ticket import Ticket
from memory.turns import Turn
from memory.verdict import Decision, Judgement, Verdict
from storage.protocols import AuditEvent, Change, Insert, Lookup, Plan, Update

NEAREST = 10
"""Entries that each arm of the index proposes for comparison, beside those that SQL finds by attribute and wording."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A judged sentence, and where it comes from. `memory_id` is derived from the request, so that a retry makes nothing twice (P34).
    Its left context is turns of the session, or a text that the caller gave; neither is stored."""

    judgement: Judgement
    memory_id: MemoryId
    turn_id: TurnId | None
    said_at: datetime
    context: tuple[Turn, ...] = ()
    context_text: str = ""

    @property
    def left_context(self) -> str:
        return self.context_text or context_text(self.context)


@dataclass(frozen=True, slots=True)
class Remembered:
    """One verdict for each proposal, in their order."""

    verdicts: tuple[Verdict, ...]
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Likeness:
    """What the models know of the accepted candidates: their vectors, and how near each of the user's entries is."""

    encoded: tuple[EncodedPassage, ...] = ()
    cosines: dict[tuple[int, MemoryId], float] | None = None
    degraded: tuple[str, ...] = ()


async def remember(svc: Services, caller: Caller, proposals: Sequence[Proposal]) -> Remembered:
    """Stores what was accepted. Unavailable or DeadlineExceeded where SQL is away: then nothing was written."""
    accepted = [(p, p.judgement.candidate) for p in proposals if p.judgement.candidate is not None]
    if not accepted:
        return Remembered(tuple(rejected(p.judgement) for p in proposals))
    likeness = await _liken(svc, caller, accepted)
    cosines = likeness.cosines or {}
    statistics = await svc.embedder.statistics() if likeness.encoded else None
    zone = zone_of(caller.time_zone)
    origins = [(candidate, _origin(caller, proposal)) for proposal, candidate in accepted]
    settled: list[Settled] = []

    def decide(existing: Sequence[Memory]) -> Plan:
        settled[:] = merge_in_order(
            origins,
            existing,
            caller.policy.merge,
            statistics,
            cosine=lambda number, memory_id: cosines.get((number, memory_id)),
            zone=zone,
            review=caller.policy.gate.review,
        )
        return Plan(tuple(_changes(settled, {memory.id for memory in existing})))

    lookup = Lookup(
        subjects=tuple(
            {c.subject for _, c in accepted if c.subject is not None}
            | {f"preference:{c.retracts}" for _, c in accepted if c.retracts is not None}
        ),
        fingerprints=tuple({fingerprint(c.content) for _, c in accepted}),
        near=tuple(dict.fromkeys([*(memory_id for _, memory_id in cosines), *(p.memory_id for p, _ in accepted)])),
    )
    ids = tuple(proposal.memory_id for proposal, _ in accepted)
    event = AuditEvent("write", caller.actor, ids, svc.clock(), caller.scope.session_id)
    plan = await svc.records.write(caller.scope, lookup, decide, [event], caller.policy.quotas.entries_per_user)
    if plan.changes:
        await _keep_tokens(svc, caller, settled, likeness)
        svc.wake_curator()
    words = iter([_verdict(p.judgement, c, s) for (p, c), s in zip(accepted, settled, strict=True)])
    verdicts = tuple(rejected(p.judgement) if p.judgement.candidate is None else next(words) for p in proposals)
    return Remembered(verdicts, likeness.degraded)


async def _liken(svc: Services, caller: Caller, accepted: Sequence[tuple[Proposal, Candidate]]) -> _Likeness:
    ticket = Ticket(caller.scope.tenant_id, svc.deadlines.embed_s)
    passages = [Passage(candidate.content, proposal.left_context) for proposal, candidate in accepted]
    try:
        encoded = await svc.embedder.passages(ticket, passages)
    except StrataError:
        return _Likeness(degraded=("embedder",))
    try:
        found = await asyncio.gather(
            *(
                svc.index.search(caller.scope, one.pooled, terms(candidate.content), NEAREST, NEAREST)
                for one, (_, candidate) in zip(encoded, accepted, strict=True)
            )
        )
    except StrataError:
        return _Likeness(tuple(encoded), degraded=("index",))
    cosines = {(n, hit.id): hit.cosine for n, hits in enumerate(found) for hit in hits if hit.cosine is not None}
    return _Likeness(tuple(encoded), cosines)


def _origin(caller: Caller, proposal: Proposal) -> Origin:
    return Origin(
        memory_id=proposal.memory_id,
        user_id=caller.scope.user,
        said_at=proposal.said_at,
        session_id=caller.scope.session_id if proposal.turn_id is not None else None,
        turn_ids=() if proposal.turn_id is None else (proposal.turn_id,),
        context_turn_ids=tuple(turn.id for turn in proposal.context),
    )


def _changes(settled: Sequence[Settled], stored: set[MemoryId]) -> list[Change]:
    """Each entry once, as it is at the end: what is new is inserted whole, whatever later sentences did to it."""
    last: dict[MemoryId, tuple[Memory, str]] = {}
    for result in settled:
        for memory in result.retired:
            last[memory.id] = (memory, "superseded")
        if result.confirmed is not None:
            last[result.confirmed.id] = (result.confirmed, "confirmed")
        if result.inserted is not None:
            last[result.inserted.id] = (result.inserted, "stored")
    return [
        Update(memory, change, fingerprint(memory.content))
        if memory_id in stored
        else Insert(memory, fingerprint(memory.content))
        for memory_id, (memory, change) in last.items()
    ]


async def _keep_tokens(svc: Services, caller: Caller, settled: Sequence[Settled], likeness: _Likeness) -> None:
    """The token vectors are made already, in context: kept beside the new rows, they serve the very next question. A failure
    costs nothing: the Curator encodes what has none."""
    system = system_scope(caller.scope.tenant_id, caller.scope.user)
    try:
        model_key = (await svc.embedder.card()).key
        for result, one in zip(settled, likeness.encoded, strict=False):
            if result.inserted is not None:
                memory = result.inserted
                sealed = await svc.index.seal_packed(caller.scope, one.tokens)
                await svc.records.store_tokens(system, memory.id, model_key, memory.version, sealed)
    except StrataError:
        pass


def _verdict(judgement: Judgement, candidate: Candidate, settled: Settled) -> Verdict:
    """Why it was let in, where it is new; else what it did to what was known."""
    new = settled.reason in (MergeReason.NEW, MergeReason.ALREADY_STORED)
    return Verdict(
        candidate.content,
        settled.decision,
        judgement.reason if new else settled.reason,
        candidate.kind,
        settled.memory_id,
        settled.superseded_id,
    )


def rejected(judgement: Judgement) -> Verdict:
    return Verdict(judgement.text, Decision.REJECTED, judgement.reason)
