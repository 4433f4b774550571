"""What the routers' signatures share."""

from typing import Annotated, Any

from fastapi import Depends, Path, Request

from deployments.edge.authenticate import caller_with, services_of, session_caller
from deployments.edge.caller import Caller
from memory.ids import MemoryId, SessionId, TurnId, UserId, checked_id
from memory.scope import Grant

Member = Annotated[Caller, Depends(caller_with(Grant.MEMORY))]
"""A tenant key or a session token."""
Asker = Annotated[Caller, Depends(caller_with(Grant.MEMORY, counts_itself=True))]
"""The same, for a call that reads the session and counts itself with that."""
KeyHolder = Annotated[Caller, Depends(caller_with(Grant.MEMORY, key_only=True))]
"""A tenant key only."""


async def _services(request: Request) -> Any:
    return services_of(request)


# All dependencies are coroutines: a plain function would cost each request a trip through the thread pool.
Svc = Annotated[Any, Depends(_services)]

_ID_SCHEMA = {"pattern": "^[A-Za-z0-9_-]{1,64}$"}


async def _session_id(session_id: Annotated[str, Path(json_schema_extra=_ID_SCHEMA)]) -> SessionId:
    return SessionId(checked_id(session_id, "session_id"))


async def _turn_id(turn_id: Annotated[str, Path(json_schema_extra=_ID_SCHEMA)]) -> TurnId:
    return TurnId(checked_id(turn_id, "turn_id"))


async def _memory_id(memory_id: Annotated[str, Path(json_schema_extra=_ID_SCHEMA)]) -> MemoryId:
    return MemoryId(checked_id(memory_id, "memory_id"))


async def _user_id(user_id: Annotated[str, Path(json_schema_extra=_ID_SCHEMA)]) -> UserId:
    return UserId(checked_id(user_id, "user_id"))


async def _receipt_id(receipt_id: Annotated[str, Path(json_schema_extra=_ID_SCHEMA)]) -> str:
    return checked_id(receipt_id, "receipt_id")


TurnInPath = Annotated[TurnId, Depends(_turn_id)]
MemoryInPath = Annotated[MemoryId, Depends(_memory_id)]
UserInPath = Annotated[UserId, Depends(_user_id)]
ReceiptInPath = Annotated[str, Depends(_receipt_id)]


async def _in_session(caller: Member, services: Svc, session_id: Annotated[SessionId, Depends(_session_id)]) -> Caller:
    """The caller, narrowed to the session in the path and its user."""
    return await session_caller(services, caller, session_id)


InSession = Annotated[Caller, Depends(_in_session)]

__all__ = [
    "Asker",
    "InSession",
    "KeyHolder",
    "Member",
    "MemoryInPath",
    "ReceiptInPath",
    "Request",
    "Svc",
    "TurnInPath",
    "UserInPath",
]
