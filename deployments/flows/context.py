"""The hot path: what the model needs now. Session and question at once, then recall, then packing."""

import asyncio
from collections.abc import Mapping
from typing import Any

from deployments.edge.caller import Caller
from deployments.edge.requests import ContextAnswer, ContextRequest
from deployments.flows.recalling import NOTHING, Recall, encode_question, recall, rerank
from deployments.services import Services
from deployments.zones import zone_of
from memory.encoding import EncodedQuery
from memory.entry import Memory
from memory.errors import InvalidInput
from memory.gate import judge
from memory.ids import TurnId
from memory.packing import Document, Packed, PackRequest, Recollection, pack
from memory.policy import Policy, PromptPolicy, Window
from memory.turns import MemoryMode, Role, SessionSnapshot, Turn
from models.tokens import TokenCounter, counter_for
from storage.protocols import AuditEvent

LOADED_TURNS = 400
"""The newest turns that are looked at. More would not fit a budget that anybody sets, and reading is not free."""

INLINE_CHARS = 20_000
MODELS = 8
_COUNTERS: dict[str, TokenCounter] = {}
"""Of the target models that were asked for lately."""


async def assemble(svc: Services, caller: Caller, request: ContextRequest) -> ContextAnswer:
    """The working memory for one call. OverBudget where what is never cut does not fit; a session tier that is away is
    Unavailable: nothing is invented. Everything else that is away is named in `degraded`."""
    prompt = prompt_policy(caller.policy.prompt, request)
    recalling = caller.policy.recall.enabled and request.memory is not MemoryMode.OFF
    snapshot, encoded, degraded = await _read(svc, caller, request.query if recalling else None)
    question = request.query if request.query is not None else _last_question(snapshot.turns)
    if question is None:
        raise InvalidInput("query", "give a query, or append a user turn first: there is no question to answer")
    zone = zone_of(snapshot.session.time_zone)
    found = NOTHING
    if recalling:
        if request.query is None:
            encoded, degraded = await encode_question(svc, caller, question)
        found = await recall(svc, caller, question, encoded, preloaded=snapshot.preloaded, zone=zone)
        found = await rerank(svc, caller, question, found)
    packed = await _packed(
        PackRequest(
            policy=prompt,
            system=request.system,
            tools=request.tools,
            state=snapshot.state,
            summary=snapshot.summary,
            memories=_recollections(found, caller.policy),
            documents=[Document(document.id, document.text) for document in request.documents],
            turns=snapshot.turns,
            question=request.query,
            important=_important(snapshot.turns, caller.policy, prompt),
            language=snapshot.session.language,
            zone=zone,
        )
    )
    used = tuple(recollection.memory.id for recollection in packed.memories)
    if used:
        event = AuditEvent("read", caller.actor, used, svc.clock(), caller.scope.session_id, "context")
        svc.reads.note(caller.scope, event)
    return _answer(packed, found, (*degraded, *found.degraded))


def prompt_policy(policy: PromptPolicy, request: ContextRequest) -> PromptPolicy:
    """The tenant's policy with the call's own choices merged in; InvalidInput where they do not fit together."""
    chosen: dict[str, Any] = {
        "budget_tokens": request.budget_tokens,
        "output_reserve": request.output_reserve,
        "model": request.model,
    }
    merged = policy.model_copy(update={knob: value for knob, value in chosen.items() if value is not None})
    if request.sections:
        merged = merged.model_copy(update={"sections": merged.sections.model_copy(update=dict(request.sections))})
    if merged.output_reserve >= merged.budget_tokens:
        raise InvalidInput("output_reserve", f"must be less than budget_tokens ({merged.budget_tokens})")
    return merged


async def _read(
    svc: Services, caller: Caller, query: str | None
) -> tuple[SessionSnapshot, EncodedQuery | None, tuple[str, ...]]:
    """The session in one round trip and, where the question is known already, its vectors meanwhile."""
    if query is None or not query.strip():
        return await svc.sessions.load(caller.scope, LOADED_TURNS, caller.due), None, ()
    encoding = asyncio.create_task(encode_question(svc, caller, query))
    try:
        snapshot = await svc.sessions.load(caller.scope, LOADED_TURNS, caller.due)
    except BaseException:
        encoding.cancel()
        raise
    return snapshot, *await encoding


def _last_question(turns: tuple[Turn, ...]) -> str | None:
    for turn in reversed(turns):
        if turn.role is Role.USER:
            return turn.content
    return None


def _recollections(found: Recall, policy: Policy) -> list[Recollection]:
    shown = policy.recall.show_outdated
    return [
        Recollection(one.memory, found.rows[one.memory.id].predecessor if shown else None) for one in found.memories
    ]


def _important(turns: tuple[Turn, ...], policy: Policy, prompt: PromptPolicy) -> frozenset[TurnId]:
    """Turns in which the gate finds something worth keeping; asked only where the window prefers those (W3)."""
    if prompt.window is not Window.IMPORTANCE:
        return frozenset()
    return frozenset(turn.id for turn in turns if any(j.accepted for j in judge(turn, policy=policy.gate)))


async def _packed(request: PackRequest) -> Packed:
    """Off the loop where there is much to count; a few pages are counted faster than a thread is woken."""
    counter = _COUNTERS.get(request.policy.model)
    if counter is None:  # it may have to be read from a disk
        counter = await asyncio.to_thread(counter_for, request.policy.model)
        if len(_COUNTERS) >= MODELS:
            _COUNTERS.clear()
        _COUNTERS[request.policy.model] = counter
    size = sum(len(turn.content) for turn in request.turns) + sum(len(document.text) for document in request.documents)
    if size <= INLINE_CHARS:
        return pack(request, counter)
    return await asyncio.to_thread(pack, request, counter)


def _answer(packed: Packed, found: Recall, degraded: tuple[str, ...]) -> ContextAnswer:
    recalled = {one.memory.id: one for one in found.memories}
    memories: list[Mapping[str, Any]] = []
    for recollection in packed.memories:
        one = recalled[recollection.memory.id]
        memories.append(_shown(one.memory, round(one.score, 4), one.why))
        if recollection.predecessor is not None:
            memories.append(_shown(recollection.predecessor, 0.0, f"replaced by {one.memory.id}"))
    return ContextAnswer(
        messages=packed.messages,
        tools=list(packed.tools),
        tokens={"total": packed.total, "budget": packed.budget, "by_section": packed.by_section},
        memories=memories,
        cut=[{"section": cut.section, "items": cut.items, "tokens": cut.tokens} for cut in packed.cut],
        degraded=list(dict.fromkeys(degraded)),
        prefix_hash=packed.prefix_hash,
    )


def _shown(memory: Memory, score: float, why: str) -> Mapping[str, Any]:
    return {
        "id": memory.id,
        "content": memory.content,
        "kind": memory.kind,
        "status": memory.status,
        "score": score,
        "why": why,
    }
