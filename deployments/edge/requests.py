"""What the routers hand to the flows and get back, where memory/ has no type for it: plain frozen data, already validated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from memory.entry import Kind, Source
from memory.ids import MemoryId, TurnId
from memory.recall import Recalled
from memory.turns import MemoryMode, Turn
from memory.verdict import Verdict
from storage.protocols import Retracted


@dataclass(frozen=True, slots=True)
class Document:
    """A retrieved document that the caller brings."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """POST /v1/context. None: the tenant's policy decides. `sections` holds only the caps that the call overrides."""

    query: str | None = None
    system: str | None = None
    budget_tokens: int | None = None
    output_reserve: int | None = None
    model: str | None = None
    sections: Mapping[str, int] = field(default_factory=dict)
    tools: tuple[Mapping[str, Any], ...] = ()
    documents: tuple[Document, ...] = ()
    memory: MemoryMode = MemoryMode.ON


@dataclass(frozen=True, slots=True)
class ContextAnswer:
    """What is sent to the model, and an account of it. Every value is plain JSON, datetimes apart."""

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]]
    tokens: Mapping[str, Any]
    memories: Sequence[Mapping[str, Any]]
    cut: Sequence[Mapping[str, Any]]
    degraded: Sequence[str]
    prefix_hash: str


@dataclass(frozen=True, slots=True)
class NewMemory:
    """An explicit write."""

    id: MemoryId
    content: str
    kind: Kind | None = None
    importance: float | None = None
    source: Source = Source.USER
    entities: tuple[str, ...] = ()
    valid_from: datetime | None = None
    context: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """POST /v1/memories/search. None: the tenant's policy decides."""

    query: str
    k: int | None = None
    kinds: tuple[Kind, ...] | None = None
    since: datetime | None = None
    until: datetime | None = None
    as_of: datetime | None = None
    min_score: float | None = None
    explain: bool = False
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A search's hits, best first."""

    items: tuple[Recalled, ...]
    degraded: tuple[str, ...] = ()
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    """Turns as stored, and what the gate said about them."""

    turns: tuple[Turn, ...]
    verdicts: tuple[Verdict, ...] = ()
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TurnChange:
    """What an edit or a retraction did: the turn that now stands there, what went with it, what was learnt instead."""

    turn: Turn | None
    removed: tuple[TurnId, ...] = ()
    retracted: Retracted = field(default_factory=Retracted)
    verdicts: tuple[Verdict, ...] = ()
    degraded: tuple[str, ...] = ()
