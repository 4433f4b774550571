"""I2: what is put on record of each action."""

from dataclasses import dataclass
from datetime import datetime

from memory.ids import MemoryId, SessionId
from memory.scope import Scope


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """I2: who did what to which entries, from which session. Never content."""

    action: str
    actor: str
    memory_ids: tuple[MemoryId, ...]
    at: datetime
    session_id: SessionId | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Read:
    """scope.user's entries that `event` names were read, at its time."""

    scope: Scope
    event: AuditEvent
