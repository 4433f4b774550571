"""Turns: append and learn, list, replace, take back."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from deployments.edge.answers import (
    answer,
    page_json,
    retracted_json,
    stored_turn_json,
    turn_json,
    verdict_json,
    zone_for,
)
from deployments.edge.bodies.sessions import AppendedTurns, AppendTurns, ChangedTurn, PageQuery, ReplaceTurn, TurnPage
from deployments.edge.caller import Caller
from deployments.edge.idempotency import Ids, perform
from deployments.edge.requests import TurnChange
from deployments.edge.routers.parameters import InSession, Svc, TurnInPath
from deployments.edge.routes import StrictRoute
from deployments.flows import turns as flows
from deployments.telemetry.metrics import count_learning
from memory.errors import InvalidInput
from memory.ids import TurnId

router = APIRouter(route_class=StrictRoute, tags=["turns"])

TURNS = "/v1/sessions/{session_id}/turns"


@router.post(TURNS, response_model=AppendedTurns)
async def append_turns(request: Request, caller: InSession, svc: Svc, body: AppendTurns) -> Response:
    """Append turns in order, all or none, and learn from what the user said. Every sentence that was considered has its verdict."""
    most = caller.policy.quotas.turns_per_call
    if len(body.turns) > most:
        raise InvalidInput("turns", f"must have at most {most} items in one call")

    async def work(ids: Ids) -> Any:
        appended = await flows.append_turns(svc, caller, body.new_turns(ids), body.memory)
        count_learning(appended.verdicts, appended.degraded)
        return {
            "turns": [stored_turn_json(turn) for turn in appended.turns],
            "verdicts": [verdict_json(verdict) for verdict in appended.verdicts],
            "degraded": list(appended.degraded),
        }

    return (await perform(request, svc, caller, work)).response()


@router.get(TURNS, response_model=TurnPage)
async def list_turns(caller: InSession, svc: Svc, query: Annotated[PageQuery, Query()]) -> Response:
    """The transcript, oldest first."""
    page = await flows.list_turns(svc, caller, query.limit, query.cursor)
    zone = zone_for(caller)
    return answer(page_json(page, [turn_json(turn, zone) for turn in page.items]))


@router.put(TURNS + "/{turn_id}", response_model=ChangedTurn)
async def replace_turn(
    request: Request, caller: InSession, svc: Svc, turn_id: TurnInPath, body: ReplaceTurn
) -> Response:
    """The user edited or regenerated: this turn is replaced, those after it go, and so does what was learnt from them alone."""

    async def work(ids: Ids) -> Any:
        new = body.new_turn(turn_id, ids.now, body.memory)
        return _changed(caller, await flows.replace_turn(svc, caller, turn_id, new, body.memory))

    return (await perform(request, svc, caller, work)).response()


@router.delete(TURNS + "/{turn_id}", response_model=ChangedTurn)
async def remove_turn(request: Request, caller: InSession, svc: Svc, turn_id: TurnInPath) -> Response:
    """Forget this turn, and what was learnt from it alone."""
    return await _remove(request, caller, svc, turn_id)


@router.post("/v1/sessions/{session_id}/forget-last", response_model=ChangedTurn)
async def forget_last(request: Request, caller: InSession, svc: Svc) -> Response:
    """ "Forget what I just said": the last user turn and what followed it."""
    return await _remove(request, caller, svc, None)


async def _remove(request: Request, caller: Caller, svc: Any, turn_id: TurnId | None) -> Response:
    async def work(_: Ids) -> Any:
        return _changed(caller, await flows.remove_turn(svc, caller, turn_id))

    return (await perform(request, svc, caller, work)).response()


def _changed(caller: Caller, change: TurnChange) -> dict[str, Any]:
    count_learning(change.verdicts, change.degraded)
    return {
        "turn": None if change.turn is None else turn_json(change.turn, zone_for(caller)),
        "removed": list(change.removed),
        "memories": retracted_json(change.retracted),
        "verdicts": [verdict_json(verdict) for verdict in change.verdicts],
        "degraded": list(change.degraded),
    }
