"""Sessions: open, look, drop."""

from datetime import timedelta
from typing import Any

from deployments.edge.caller import Caller
from deployments.services import Services
from memory.errors import StrataError
from memory.ids import SessionId, UserId
from memory.turns import Session
from storage.protocols import Page


async def open_session(
    svc: Services,
    caller: Caller,
    *,
    user_id: UserId,
    session_id: SessionId,
    time_zone: str | None,
    language: str | None,
    metadata: dict[str, Any],
) -> Session:
    """Opens the session, or answers the user's own open one of that id. Loads the user's likely memories into it (T5)."""
    now = svc.clock()
    ttl_s = caller.policy.session.ttl_seconds
    scope = caller.scope.narrowed(user_id, session_id)
    session = Session(
        id=session_id,
        user_id=user_id,
        created_at=now,
        expires_at=now + timedelta(seconds=ttl_s),
        time_zone=time_zone,
        language=language,
        metadata=metadata,
    )
    opened = await svc.sessions.open(scope, session, ttl_s, caller.policy.quotas.sessions_per_user)
    if caller.policy.session.preload and opened.turn_count == 0:
        try:
            likely = await svc.records.recent(scope, caller.policy.session.preload)
            await svc.sessions.set_preloaded(scope, [memory.id for memory in likely])
        except StrataError:
            pass  # preloading is a convenience: recall finds them anyway
    return opened


async def list_sessions(svc: Services, caller: Caller, limit: int, cursor: str | None) -> Page[Session]:
    return await svc.sessions.page(caller.scope, limit, cursor)


async def get_session(svc: Services, caller: Caller) -> Session:
    return await svc.sessions.get(caller.scope)


async def drop_session(svc: Services, caller: Caller) -> bool:
    return await svc.sessions.drop(caller.scope)
