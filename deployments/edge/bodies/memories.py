"""Bodies of memories: explicit writes, listing, correction, deletion, search."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, StrictInt, StringConstraints, Tag, model_validator

from deployments.edge.bodies.fields import (
    Answer,
    Body,
    Cursor,
    Flag,
    Identifier,
    Limit,
    Metadata,
    Moment,
    Question,
    Share,
    not_blank,
    wrong,
)
from deployments.edge.idempotency import Ids
from deployments.edge.problems import MANY_ENTRIES, ONE_ENTRY
from deployments.edge.requests import NewMemory, SearchRequest
from memory.entry import Kind, Source, Status
from memory.ids import MemoryId
from storage.protocols import Filters

MAX_ENTRIES = 1000
MAX_ENTRY = 4000

EntryText = Annotated[str, StringConstraints(strict=True, max_length=MAX_ENTRY), AfterValidator(not_blank)]
Entity = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=200)]


class Entry(Body):
    """One explicit write."""

    content: EntryText
    kind: Kind | None = None
    importance: Share | None = None
    source: Source = Source.USER
    entities: list[Entity] | None = Field(default=None, max_length=50)
    valid_from: Moment | None = None
    context: Annotated[str, StringConstraints(strict=True, max_length=MAX_ENTRY)] | None = Field(
        default=None, description="What was said just before; helps to find the entry, and is not stored."
    )
    metadata: Metadata = Field(default_factory=dict)

    def new_memory(self, memory_id: str) -> NewMemory:
        return NewMemory(
            id=MemoryId(memory_id),
            content=self.content,
            kind=self.kind,
            importance=self.importance,
            source=self.source,
            entities=tuple(self.entities or ()),
            valid_from=self.valid_from,
            context=self.context or "",
            metadata=self.metadata,
        )


class OneEntry(Entry):
    user_id: Identifier | None = None


class ManyEntries(Body):
    user_id: Identifier | None = None
    memories: list[Entry] = Field(min_length=1, max_length=MAX_ENTRIES)
    mode: Literal["gated", "verbatim"] = "gated"


def _which(value: Any) -> str:
    if isinstance(value, ManyEntries):
        return MANY_ENTRIES
    return MANY_ENTRIES if isinstance(value, dict) and "memories" in value else ONE_ENTRY


CreateMemories = Annotated[
    Annotated[OneEntry, Tag(ONE_ENTRY)] | Annotated[ManyEntries, Tag(MANY_ENTRIES)], Discriminator(_which)
]


def entries_of(body: OneEntry | ManyEntries, ids: Ids) -> list[NewMemory]:
    entries: list[Entry] = [body] if isinstance(body, OneEntry) else list(body.memories)
    return [entry.new_memory(ids.make("m", place)) for place, entry in enumerate(entries)]


class MemoriesQuery(Body):
    user_id: Identifier | None = None
    kind: list[Kind] | None = None
    status: Status | None = None
    since: Moment | None = None
    until: Moment | None = None
    min_confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None
    entity: Entity | None = None
    q: Annotated[str, StringConstraints(min_length=1, max_length=1000)] | None = None
    limit: Limit = 100
    cursor: Cursor | None = None

    def filters(self) -> Filters:
        return Filters(
            kinds=None if self.kind is None else tuple(self.kind),
            status=self.status,
            since=self.since,
            until=self.until,
            min_confidence=self.min_confidence,
            entity=self.entity,
        )


class UserQuery(Body):
    user_id: Identifier | None = None


class PatchMemory(Body):
    """What is corrected. A field that is left out stays; none may be null."""

    user_id: Identifier | None = None
    content: EntryText | None = None
    kind: Kind | None = None
    importance: Share | None = None
    status: Literal["active", "outdated"] | None = None
    metadata: Metadata | None = None

    @model_validator(mode="after")
    def _says_something(self) -> "PatchMemory":
        given = self.patch()
        if not given:
            raise wrong("give at least one of `content`, `kind`, `importance`, `status`, `metadata`")
        for name, value in given.items():
            if value is None:
                raise wrong("must not be null; leave it out to keep it", at=name)
        return self

    def patch(self) -> dict[str, Any]:
        """Only what was given; `kind` and `status` as their enums."""
        given: dict[str, Any] = self.model_dump(exclude_unset=True, exclude={"user_id"})
        if given.get("status") is not None:
            given["status"] = Status(given["status"])
        return given


class DeleteAll(Body):
    confirm: Literal["all"]
    user_id: Identifier | None = None


class SearchBody(Body):
    user_id: Identifier | None = None
    query: Question
    k: Annotated[StrictInt, Field(ge=1, le=1000)] | None = None
    limit: Annotated[StrictInt, Field(ge=1, le=1000)] | None = Field(default=None, description="Another name for k.")
    kinds: list[Kind] | None = None
    since: Moment | None = None
    until: Moment | None = None
    as_of: Moment | None = None
    min_score: Share | None = None
    explain: Flag = False
    cursor: Cursor | None = None

    @model_validator(mode="after")
    def _one_size(self) -> "SearchBody":
        if self.k is not None and self.limit is not None:
            raise wrong("means the same as `k`; give one of them", at="limit")
        return self

    def request(self) -> SearchRequest:
        return SearchRequest(
            query=self.query,
            k=self.limit if self.k is None else self.k,
            kinds=None if self.kinds is None else tuple(self.kinds),
            since=self.since,
            until=self.until,
            as_of=self.as_of,
            min_score=self.min_score,
            explain=self.explain,
            cursor=self.cursor,
        )


# --- answers ----------------------------------------------------------------------------------------------------------


class MemoryAnswer(Answer):
    id: str
    user_id: str
    content: str
    kind: Kind
    status: Status
    source: Source
    language: str
    importance: float
    confidence: float
    version: int
    created_at: datetime
    updated_at: datetime
    subject: str | None
    entities: list[str]
    session_id: str | None
    turn_ids: list[str]
    valid_from: datetime | None
    valid_to: datetime | None
    supersedes: str | None
    last_access_at: datetime | None
    access_count: int
    hit_count: int
    metadata: dict[str, Any]


class MemoryPage(Answer):
    items: list[MemoryAnswer]
    next_cursor: str | None


class WrittenMemory(Answer):
    """What became of one entry. `id` is there where something is stored."""

    id: str | None = None
    content: str
    kind: Kind | None
    verdict: str
    reason: str
    superseded_id: str | None = None


class WrittenMemories(Answer):
    items: list[WrittenMemory]


class RevisionAnswer(Answer):
    version: int
    content: str
    kind: Kind
    status: Status
    confidence: float
    at: datetime
    change: str
    session_id: str | None


class HistoryAnswer(Answer):
    items: list[RevisionAnswer]
    next_cursor: None


class FoundAnswer(MemoryAnswer):
    score: float
    probability: float = Field(description="Calibrated, of being relevant to the query.")
    why: str
    explain: dict[str, float] | None = None


class SearchAnswer(Answer):
    items: list[FoundAnswer]
    next_cursor: str | None
    degraded: list[str]
