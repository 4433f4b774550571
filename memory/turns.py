"""Turns and sessions: what is said, in the order in which it was accepted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from memory.ids import MemoryId, SessionId, TurnId, UserId


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"
    DEVELOPER = "developer"


class MemoryMode(StrEnum):
    """`read` learns nothing from a call; `off` neither learns nor recalls."""

    ON = "on"
    READ = "read"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the assistant asked for. `arguments` is the JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class NewTurn:
    """A turn as the caller gave it, after validation: parts joined to one text, other parts noted as `[image]` and the like."""

    id: TurnId
    role: Role
    content: str
    tokens: int
    at: datetime
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    complete: bool = True
    memory: MemoryMode = MemoryMode.ON


@dataclass(frozen=True, slots=True)
class Turn:
    """A stored turn. `seq` is its place in the session, from 1, given atomically at acceptance: order is never a clock's (P35)."""

    id: TurnId
    seq: int
    role: Role
    content: str
    tokens: int
    at: datetime
    name: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    complete: bool = True
    memory: MemoryMode = MemoryMode.ON


@dataclass(frozen=True, slots=True)
class TaskState:
    """T1: where the task stands; not talk. `version` goes up by one with every accepted patch, 0 is the empty state."""

    version: int = 0
    intent: str | None = None
    slots: Mapping[str, Any] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    results: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Session:
    id: SessionId
    user_id: UserId
    created_at: datetime
    expires_at: datetime
    turn_count: int = 0
    time_zone: str | None = None
    language: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SessionSnapshot:
    """Everything the hot path needs of a session, read in one round trip. `turns` are the newest, oldest first."""

    session: Session
    turns: tuple[Turn, ...]
    state: TaskState
    summary: str | None = None
    preloaded: tuple[MemoryId, ...] = ()
