"""The memory entry of L1: one atomic thing worth knowing about a user, with its provenance."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from memory.ids import MemoryId, SessionId, TurnId, UserId


class Kind(StrEnum):
    PREFERENCE = "preference"
    CONSTRAINT = "constraint"
    FACT = "fact"
    TASK_RESULT = "task_result"
    LESSON = "lesson"
    PROFILE = "profile"
    EPISODE = "episode"


class Source(StrEnum):
    """L4: what a model inferred is never stored as what the user said."""

    USER = "user"
    TOOL = "tool"
    MODEL = "model"


class Status(StrEnum):
    ACTIVE = "active"
    OUTDATED = "outdated"
    PENDING = "pending"  # waits for a review (L17); invisible to recall


@dataclass(frozen=True, slots=True)
class Candidate:
    """What the gate proposes: an entry that stands alone, not yet compared with what is already known.

    `subject` names the attribute that it sets, in one normal form whatever the wording or language of the sentence
    ("home", "diet", "name", "allergy:peanut", "preference:coffee"); None where the sentence sets no attribute that could
    ever change. `value` is the attribute's value in normal form ("berlin", "like", "dislike"). With `exclusive`, a user has
    one value at a time, and a new one retires the old; otherwise values stand side by side (allergies, children).
    `retracts` names the value that a correction takes back ("不是A，是B": A in normal form).
    """

    content: str
    kind: Kind
    source: Source = Source.USER
    language: str = "en"
    importance: float = 0.5
    subject: str | None = None
    value: str | None = None
    exclusive: bool = False
    corrects: bool = False
    retracts: str | None = None
    entities: tuple[str, ...] = ()
    valid_from: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Memory:
    """A stored entry. Times are aware and in UTC. `version` counts its wordings, from 1.

    `valid_from`/`valid_to` is when it held in the world, `created_at` when it was recorded. `supersedes` is the entry that
    this one retired, if any (L6): the two are shown together, marked.
    """

    id: MemoryId
    user_id: UserId
    kind: Kind
    content: str
    source: Source
    status: Status
    language: str
    importance: float
    confidence: float
    version: int
    created_at: datetime
    updated_at: datetime
    subject: str | None = None
    value: str | None = None
    exclusive: bool = False
    entities: tuple[str, ...] = ()
    session_id: SessionId | None = None
    turn_ids: tuple[TurnId, ...] = ()
    context_turn_ids: tuple[TurnId, ...] = ()
    last_access_at: datetime | None = None
    access_count: int = 0
    hit_count: int = 1
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    supersedes: MemoryId | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Revision:
    """One line of an entry's history (L14): what it was until `until`, and what ended that."""

    version: int
    content: str
    kind: Kind
    status: Status
    confidence: float
    at: datetime
    change: str  # "stored", "confirmed", "superseded", "corrected", "restored"
    session_id: SessionId | None = None
