"""Turns: append and learn, list, replace, take back."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from deployments.edge.caller import Caller
from deployments.edge.requests import Appended, TurnChange
from deployments.flows.remembering import Proposal, rejected, remember
from deployments.services import Services
from memory.errors import DeadlineExceeded, NotFound, Overloaded, StrataError, Unavailable
from memory.gate import judge
from memory.ids import MemoryId, TurnId, derived_id
from memory.left_context import context_turns
from memory.turns import MemoryMode, NewTurn, Role, Turn
from memory.verdict import Decision, Judgement, Verdict
from models.tokens import counter_for
from storage.protocols import AuditEvent, Page, Retracted

BEFORE = 12
"""How many turns before the new ones are read: enough for an entry's left context."""
QUOTED = 50
"""The user's most important and newest entries: what a prompt of his session may have quoted."""


async def append_turns(svc: Services, caller: Caller, turns: Sequence[NewTurn], mode: MemoryMode) -> Appended:
    """Appends in order, all or none; then learns from what the user said. A records tier that is away costs the learning, named in
    `degraded`; the turns are kept."""
    counted = await _counted(caller, turns)
    stored = await svc.sessions.append(caller.scope, counted, caller.policy.session.max_turns)
    verdicts, degraded = await learn(svc, caller, stored, mode)
    return Appended(stored, verdicts, degraded)


async def _counted(caller: Caller, turns: Sequence[NewTurn]) -> list[NewTurn]:
    """With the tokens of each text, by the tenant's target model (T2). Long texts are counted off the loop."""
    model = caller.policy.prompt.model

    def count() -> list[NewTurn]:
        counter = counter_for(model)
        return [replace(turn, tokens=counter(turn.content)) for turn in turns]

    return await asyncio.to_thread(count)


async def learn(
    svc: Services, caller: Caller, turns: Sequence[Turn], mode: MemoryMode, edition: str = ""
) -> tuple[tuple[Verdict, ...], tuple[str, ...]]:
    """Gate, then merge: verdicts in the order of the sentences. Ids derive from the turn, so that a retry makes nothing twice, and from
    its `edition`: what an edited turn says is new even where the deleted entry's tombstone still stands."""
    if mode is not MemoryMode.ON:
        return (), ()
    judged = [(turn, judge(turn, policy=caller.policy.gate)) for turn in turns]
    if not _anything(judged):
        return tuple(rejected(one) for _, judgements in judged for one in judgements), ()
    transcript = await svc.sessions.load(caller.scope, BEFORE + len(turns))
    judged = await _against_what_was_said(svc, caller, turns, transcript.turns)
    whose = (caller.scope.tenant_id, caller.scope.user, caller.scope.session)
    proposals: list[Proposal] = []
    for turn, judgements in judged:
        before = context_turns(transcript.turns, turn.seq)
        for number, judgement in enumerate(judgements):
            proposals.append(
                Proposal(
                    judgement=judgement,
                    memory_id=MemoryId(derived_id("m", *whose, turn.id, edition, str(number))),
                    turn_id=turn.id,
                    said_at=turn.at,
                    context=before,
                )
            )
    try:
        outcome = await remember(svc, caller, proposals)
    except (Unavailable, DeadlineExceeded):
        return tuple(_not_kept(one, "records_unavailable") for _, ones in judged for one in ones), ("records",)
    except Overloaded:
        return tuple(_not_kept(one, "over_quota") for _, ones in judged for one in ones), ()
    return outcome.verdicts, outcome.degraded


async def _against_what_was_said(
    svc: Services, caller: Caller, turns: Sequence[Turn], transcript: Sequence[Turn]
) -> list[tuple[Turn, tuple[Judgement, ...]]]:
    """Judged once more, where something may be kept: what only repeats the assistant's last words (P3), or an entry as a prompt
    quotes it (P1), is not learnt again. Without the records only the former is known; then nothing is written either."""
    try:
        recalled = [memory.content for memory in await svc.records.recent(caller.scope, QUOTED)]
    except StrataError:
        recalled = []
    judged = []
    for turn in turns:
        words = [before.content for before in transcript if before.seq < turn.seq and before.role is Role.ASSISTANT]
        previous = words[-1] if words else None
        judged.append((turn, judge(turn, policy=caller.policy.gate, recalled=recalled, previous_assistant=previous)))
    return judged


def _anything(judged: Sequence[tuple[Turn, tuple[Judgement, ...]]]) -> bool:
    return any(judgement.accepted for _, judgements in judged for judgement in judgements)


def _not_kept(judgement: Judgement, reason: str) -> Verdict:
    """Accepted, but it could not be written: said so, never silently lost (P4)."""
    if judgement.candidate is None:
        return rejected(judgement)
    return Verdict(judgement.candidate.content, Decision.REJECTED, reason, judgement.candidate.kind)


async def list_turns(svc: Services, caller: Caller, limit: int, cursor: str | None) -> Page[Turn]:
    return await svc.sessions.turns(caller.scope, limit, cursor)


async def replace_turn(svc: Services, caller: Caller, turn_id: TurnId, turn: NewTurn, mode: MemoryMode) -> TurnChange:
    """P31: the user edited or regenerated. What was learnt from the old wording, and from the turns after it, goes; what the new
    wording says is learnt."""
    doomed = await _from(svc, caller, turn_id)
    retracted = await _retract(svc, caller, doomed, "turn_replaced")
    (counted,) = await _counted(caller, [turn])
    replaced = await svc.sessions.replace_turn(caller.scope, turn_id, counted)
    removed = tuple(old.id for old in replaced.removed)
    late = await _retract(svc, caller, [gone for gone in removed if gone not in doomed], "turn_replaced")
    new = [] if replaced.turn is None else [replaced.turn]
    verdicts, degraded = await learn(svc, caller, new, mode, svc.entropy(8).hex())
    return TurnChange(replaced.turn, removed, _both(retracted, late), verdicts, degraded)


async def remove_turn(svc: Services, caller: Caller, turn_id: TurnId | None) -> TurnChange:
    """W7: that turn goes (None: what the user said last, and the answers to it), and what was learnt from it alone."""
    doomed = [turn_id] if turn_id is not None else await _from(svc, caller, None)
    retracted = await _retract(svc, caller, doomed, "turn_removed")
    replaced = await svc.sessions.remove_turn(caller.scope, turn_id)
    removed = tuple(old.id for old in replaced.removed)
    late = await _retract(svc, caller, [gone for gone in removed if gone not in doomed], "turn_removed")
    return TurnChange(None, removed, _both(retracted, late))


async def _from(svc: Services, caller: Caller, turn_id: TurnId | None) -> list[TurnId]:
    """The ids of that turn (None: the last user turn) and of those after it. NotFound("turn") where it is not there."""
    snapshot = await svc.sessions.load(caller.scope, caller.policy.session.max_turns)
    places = [
        place
        for place, turn in enumerate(snapshot.turns)
        if (turn.role is Role.USER if turn_id is None else turn.id == turn_id)
    ]
    if not places:
        raise NotFound("turn")
    return [turn.id for turn in snapshot.turns[places[-1] :]]


async def _retract(svc: Services, caller: Caller, turn_ids: Sequence[TurnId], reason: str) -> Retracted:
    """Before the turns themselves go: a crash in between then forgets too early, never too little. Whatever another writer
    appended meanwhile is retracted after."""
    if not turn_ids:
        return Retracted()
    event = AuditEvent("retract", caller.actor, (), svc.clock(), caller.scope.session_id, reason)
    retracted = await svc.records.retract_turns(caller.scope, turn_ids, event)
    svc.wake_curator()
    return retracted


def _both(first: Retracted, second: Retracted) -> Retracted:
    return Retracted(first.deleted + second.deleted, first.restored + second.restored, first.changed + second.changed)
