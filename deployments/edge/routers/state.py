"""Task state: read it, patch it."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from deployments.edge.answers import answer, state_json
from deployments.edge.bodies.sessions import PatchState, StateAnswer
from deployments.edge.idempotency import Ids, perform
from deployments.edge.routers.parameters import InSession, Svc
from deployments.edge.routes import StrictRoute
from deployments.flows import state as flows

router = APIRouter(route_class=StrictRoute, tags=["state"])

STATE = "/v1/sessions/{session_id}/state"


@router.get(STATE, response_model=StateAnswer)
async def get_state(caller: InSession, svc: Svc) -> Response:
    return answer(state_json(await flows.get_state(svc, caller)))


@router.patch(STATE, response_model=StateAnswer)
async def patch_state(request: Request, caller: InSession, svc: Svc, body: PatchState) -> Response:
    """A JSON merge patch. With `version`, only onto that version: somebody else's patch in between is a 409 with the current one."""

    async def work(_: Ids) -> Any:
        return state_json(await flows.patch_state(svc, caller, body.patch(), body.version))

    return (await perform(request, svc, caller, work)).response()
