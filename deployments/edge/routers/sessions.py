"""Sessions: open, list, look, drop."""

from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from deployments.edge.answers import answer, page_json, session_json, shown
from deployments.edge.bodies.sessions import OpenedSession, OpenSession, SessionAnswer, SessionPage, SessionsQuery
from deployments.edge.idempotency import REPLAYED, Ids, perform
from deployments.edge.routers.parameters import InSession, KeyHolder, Member, Svc
from deployments.edge.routes import StrictRoute
from deployments.flows import sessions as flows
from deployments.zones import zone_of
from memory.errors import NotFound
from memory.ids import SessionId, UserId
from memory.turns import Session

router = APIRouter(route_class=StrictRoute, tags=["sessions"])


@router.post("/v1/sessions", status_code=201, response_model=OpenedSession)
async def open_session(request: Request, caller: KeyHolder, svc: Svc, body: OpenSession) -> Response:
    """Open a session for one of the tenant's users, or take up the user's own session of that id again. The token is for an agent
    or a browser; it acts for this user and session alone."""
    caller = caller.for_user(body.user_id)

    async def work(ids: Ids) -> Any:
        session = await flows.open_session(
            svc,
            caller,
            user_id=UserId(body.user_id),
            session_id=SessionId(body.session_id or ids.make("s")),
            time_zone=body.time_zone,
            language=body.language,
            metadata=body.metadata,
        )
        return session_json(session)

    outcome = await perform(request, svc, caller, work, 201)
    return _with_token(svc, caller, outcome.body, outcome.replayed)


def _with_token(svc: Any, caller: KeyHolder, body: bytes, replayed: bool) -> Response:
    """The token is signed anew for each answer, a repeated one too: none is ever stored."""
    opened = orjson.loads(body)
    session = Session(
        id=SessionId(opened["session_id"]),
        user_id=UserId(opened["user_id"]),
        created_at=opened["created_at"],
        expires_at=opened["expires_at"],
        time_zone=opened["time_zone"],
    )
    token, token_expires_at = svc.authenticator.issue_token(caller, session)
    response = answer(
        {
            "session_id": opened["session_id"],
            "user_id": opened["user_id"],
            "token": token,
            "expires_at": opened["expires_at"],
            "token_expires_at": shown(token_expires_at, zone_of(session.time_zone)),
        },
        201,
    )
    if replayed:
        response.headers[REPLAYED] = "true"
    return response


@router.get("/v1/sessions", response_model=SessionPage)
async def list_sessions(caller: Member, svc: Svc, query: Annotated[SessionsQuery, Query()]) -> Response:
    """The user's live sessions, newest first."""
    page = await flows.list_sessions(svc, caller.for_user(query.user_id), query.limit, query.cursor)
    return answer(page_json(page, [session_json(session) for session in page.items]))


@router.get("/v1/sessions/{session_id}", response_model=SessionAnswer)
async def get_session(caller: InSession, svc: Svc) -> Response:
    return answer(session_json(await flows.get_session(svc, caller)))


@router.delete("/v1/sessions/{session_id}", status_code=204)
async def drop_session(request: Request, caller: InSession, svc: Svc) -> Response:
    """Everything of the session goes: turns, state, summary. What was learnt from it stays in the user's memory."""

    async def work(_: Ids) -> None:
        if not await flows.drop_session(svc, caller):
            raise NotFound("session")

    return (await perform(request, svc, caller, work, 204)).response()
