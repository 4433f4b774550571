"""Memories: write, look, correct, delete, search."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from deployments.edge.caller import Caller
from deployments.edge.requests import Found, NewMemory, SearchRequest
from deployments.flows.recalling import encode_question, recall, rerank
from deployments.flows.remembering import Proposal, remember
from deployments.services import Services
from deployments.zones import zone_of
from memory.entry import Candidate, Kind, Memory, Revision, Status
from memory.errors import InvalidInput, NotFound
from memory.gate import judge_explicit
from memory.ids import MemoryId
from memory.scope import Grant
from memory.text import fingerprint, language
from memory.verdict import Judgement, Reason, Verdict
from storage.cursors import decode_cursor, encode_cursor
from storage.protocols import AuditEvent, Filters, Lookup, Page, Plan, Receipt, Update

AT_ONCE = 32
"""Entries compared and written in one transaction: an import must not hold the user's lock, nor the encoder, for long (P39). One
that is cut off in the middle goes on where it was when it is sent again under its Idempotency-Key: ids derive from it."""


async def create(
    svc: Services, caller: Caller, entries: Sequence[NewMemory], mode: Literal["gated", "verbatim"]
) -> tuple[Verdict, ...]:
    """An explicit write: a verdict for each entry, in the order given. `verbatim` passes by the gate and needs the grant `import`."""
    if mode == "verbatim":
        caller.scope.require(Grant.IMPORT)
    now = svc.clock()
    proposals: list[Proposal] = []
    for entry in entries:
        judgements = _judge(entry, caller, mode)
        for part, judgement in enumerate(judgements):
            memory_id = entry.id if part == 0 else MemoryId(f"{entry.id[:60]}-{part}")
            proposals.append(
                Proposal(judgement, memory_id, None, entry.valid_from or now, context_text=entry.context or "")
            )
    verdicts: list[Verdict] = []
    for start in range(0, len(proposals), AT_ONCE):
        verdicts += (await remember(svc, caller, proposals[start : start + AT_ONCE])).verdicts
    return tuple(verdicts)


def _judge(entry: NewMemory, caller: Caller, mode: str) -> tuple[Judgement, ...]:
    """What the gate says, with what the caller stated about the entry laid over it."""
    if mode == "verbatim":
        kind = entry.kind or Kind.FACT
        candidate = Candidate(entry.content, kind, language=language(entry.content))
        judgements: tuple[Judgement, ...] = (Judgement(entry.content, Reason.VERBATIM, candidate),)
    else:
        judgements = judge_explicit(entry.content, kind=entry.kind, source=entry.source, policy=caller.policy.gate)
    return tuple(
        one if one.candidate is None else replace(one, candidate=_stated(one.candidate, entry)) for one in judgements
    )


def _stated(candidate: Candidate, entry: NewMemory) -> Candidate:
    stated: dict[str, Any] = {
        "kind": entry.kind,
        "importance": entry.importance,
        "source": entry.source,
        "entities": entry.entities or None,
        "valid_from": entry.valid_from,
        "metadata": entry.metadata or None,
    }
    return replace(candidate, **{name: value for name, value in stated.items() if value is not None})


async def list_memories(
    svc: Services, caller: Caller, filters: Filters, q: str | None, limit: int, cursor: str | None
) -> Page[Memory]:
    return await svc.records.page(caller.scope, replace(filters, text=q), limit, cursor)


async def get_memory(svc: Services, caller: Caller, memory_id: MemoryId) -> Memory:
    return await svc.records.get(caller.scope, memory_id)


async def history(svc: Services, caller: Caller, memory_id: MemoryId) -> tuple[Revision, ...]:
    return await svc.records.history(caller.scope, memory_id)


async def correct(svc: Services, caller: Caller, memory_id: MemoryId, patch: Mapping[str, Any]) -> Memory:
    """A new version of the entry; the old one stays in its history. What the user corrects is certain."""
    now = svc.clock()
    corrected: list[Memory] = []

    def decide(existing: Sequence[Memory]) -> Plan:
        found = next((memory for memory in existing if memory.id == memory_id), None)
        if found is None:
            raise NotFound("memory")
        if found.status is Status.PENDING and "status" in patch:
            caller.scope.require(Grant.REVIEW)  # L17: a reviewer decides, not the one who wrote it
        changed = _corrected(found, patch, caller)
        changed = replace(changed, version=found.version + 1, updated_at=now)
        corrected[:] = [changed]
        return Plan((Update(changed, "corrected", fingerprint(changed.content)),))

    event = AuditEvent("correct", caller.actor, (memory_id,), now, caller.scope.session_id)
    lookup = Lookup(near=(memory_id,), unindexed=0)
    await svc.records.write(caller.scope, lookup, decide, [event], caller.policy.quotas.entries_per_user)
    svc.wake_curator()
    return corrected[0]


def _corrected(memory: Memory, patch: Mapping[str, Any], caller: Caller) -> Memory:
    changed = replace(memory, **{name: value for name, value in patch.items() if name != "content"})
    content = patch.get("content")
    if content is None or content == memory.content:
        return changed
    # The attribute that the new wording sets is read anew: a corrected home must still be retired by the next move.
    known = judge_explicit(content, kind=changed.kind, source=memory.source, policy=caller.policy.gate)
    candidate = known[0].candidate if len(known) == 1 else None
    return replace(
        changed,
        content=content,
        language=language(content),
        subject=None if candidate is None else candidate.subject,
        value=None if candidate is None else candidate.value,
        exclusive=candidate is not None and candidate.exclusive,
        confidence=1.0,
        context_turn_ids=(),
    )


async def delete(svc: Services, caller: Caller, ids: Sequence[MemoryId] | None) -> Receipt:
    """L10: gone at once for every reader; the index follows, and the receipt says when each store was done. None: all of the user's."""
    action = "delete_all" if ids is None else "delete"
    event = AuditEvent(action, caller.actor, tuple(ids or ()), svc.clock(), caller.scope.session_id)
    receipt = await svc.records.delete(caller.scope, ids, event)
    svc.wake_curator()
    return receipt


async def search(svc: Services, caller: Caller, request: SearchRequest) -> Found:
    """Recall without assembly, paged. `as_of` asks for what held then, outdated entries included."""
    size = caller.policy.recall.limit if request.k is None else request.k
    start = 0 if request.cursor is None else _offset(caller, request.cursor)
    filters = Filters(
        kinds=request.kinds,
        status=None if request.as_of is not None else Status.ACTIVE,
        since=request.since,
        until=request.until,
        as_of=request.as_of,
    )
    encoded, degraded = await encode_question(svc, caller, request.query)
    found = await recall(
        svc,
        caller,
        request.query,
        encoded,
        filters=filters,
        limit=start + size + 1,
        threshold=request.min_score,
        standing=0,  # a search asks for what it names, not for how to answer
        zone=zone_of(caller.time_zone),
    )
    found = await rerank(svc, caller, request.query, found)
    page = found.memories[start : start + size]
    more = len(found.memories) > start + size
    return Found(
        page,
        tuple(dict.fromkeys((*degraded, *found.degraded))),
        encode_cursor(caller.scope, str(start + size)) if more else None,
    )


def _offset(caller: Caller, cursor: str) -> int:
    position = decode_cursor(caller.scope, cursor)
    if not position.isdecimal():
        raise InvalidInput("cursor", "is not from this list; start again without one")
    return int(position)
