"""Task state (T1): read, and patch by compare-and-set."""

from collections.abc import Mapping
from typing import Any

from deployments.edge.caller import Caller
from deployments.services import Services
from memory.errors import Conflict
from memory.state import patch_state as patched
from memory.turns import TaskState

TRIES = 5


async def get_state(svc: Services, caller: Caller) -> TaskState:
    return await svc.sessions.state(caller.scope)


async def patch_state(svc: Services, caller: Caller, patch: Mapping[str, Any], version: int | None) -> TaskState:
    """Applies a merge patch. With `version` only to that version (else Conflict carrying the current one); without it to
    whatever is there, tried again a few times where another writer came first."""
    for attempt in range(TRIES):
        current = await svc.sessions.state(caller.scope)
        if version is not None and version != current.version:
            raise Conflict(
                "The state has changed since that version; read it again and patch what is there now.", current.version
            )
        try:
            return await svc.sessions.put_state(caller.scope, patched(current, patch), current.version)
        except Conflict:
            if version is not None or attempt == TRIES - 1:
                raise
    raise AssertionError("unreachable")
