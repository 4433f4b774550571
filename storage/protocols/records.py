"""The records: entries and what hangs on them, in SQL. SQL is the truth."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from memory.analysis import Analysis
from memory.encoding import PackedTokens
from memory.entry import Kind, Memory, Revision, Status
from memory.ids import MemoryId, TurnId
from memory.scope import Scope
from memory.verdict import Verdict
from storage.protocols.audit import AuditEvent, Read
from storage.protocols.erasure import ErasureStore, Receipt
from storage.protocols.keys import UserKey
from storage.protocols.page import Page
from storage.protocols.work import WorkQueue


@dataclass(frozen=True, slots=True)
class Filters:
    """Structured filters of a listing or a search (L8, P15: every backend applies every one). None: not filtered.
    `kinds=()` means none of any kind. `as_of`: entries that held at that time, outdated ones included."""

    kinds: tuple[Kind, ...] | None = None
    status: Status | None = None
    since: datetime | None = None
    until: datetime | None = None
    min_confidence: float | None = None
    entity: str | None = None
    as_of: datetime | None = None
    text: str | None = None
    """Entries whose content holds this text, case aside (a plain substring; wildcards are escaped)."""


@dataclass(frozen=True, slots=True)
class RecalledRow:
    """What the join brings: the live row, its sealed token vectors (None until indexed), whether it waits for the index,
    the outdated entry that it replaced, if one is kept, and its terms."""

    memory: Memory
    tokens: PackedTokens | None
    unindexed: bool = False
    predecessor: Memory | None = None
    analysis: Analysis | None = None


@dataclass(frozen=True, slots=True)
class Lookup:
    """Which of the user's own entries a new candidate must be compared with (L5: never another's).

    Their union is read inside the transaction that also writes: live entries with one of `subjects` or of the sort that one names
    (`favourite` is the sort of `favourite:player`), with one of `fingerprints` (exact, after normalisation by
    memory.text.fingerprint), among `near` (ids that a search found), and, because the index lags, the newest `unindexed` entries
    that wait for it.
    """

    subjects: tuple[str, ...] = ()
    fingerprints: tuple[str, ...] = ()
    near: tuple[MemoryId, ...] = ()
    unindexed: int = 100


@dataclass(frozen=True, slots=True)
class Insert:
    memory: Memory
    fingerprint: str
    change: str = "stored"


@dataclass(frozen=True, slots=True)
class Update:
    """`memory` as it shall be from now on. `change` goes into its history. With `reindex` its vector is made anew."""

    memory: Memory
    change: str
    fingerprint: str | None = None
    reindex: bool = True


Change = Insert | Update


@dataclass(frozen=True, slots=True)
class Plan:
    """What `decide` wants written, and the verdicts to answer when it has been."""

    changes: tuple[Change, ...]
    verdicts: tuple[Verdict, ...] = ()


@dataclass(frozen=True, slots=True)
class Retracted:
    """What went because a turn went (P31, W7): entries learnt from those turns alone, and entries brought back to active because
    what had retired them is gone."""

    deleted: tuple[MemoryId, ...] = ()
    restored: tuple[MemoryId, ...] = ()
    changed: tuple[MemoryId, ...] = ()


class RecordStore(Protocol):
    """SQL is the truth. Each write is one transaction with its history, audit and `dirty` mark."""

    async def user_key(self, scope: Scope, make: Callable[[], UserKey]) -> UserKey:
        """The key of scope.user; stored from `make()` when the user is first seen (two first sights at once agree)."""

    async def get(self, scope: Scope, memory_id: MemoryId) -> Memory: ...

    async def page(self, scope: Scope, filters: Filters, limit: int, cursor: str | None) -> Page[Memory]:
        """Newest first."""

    async def history(self, scope: Scope, memory_id: MemoryId) -> tuple[Revision, ...]: ...

    async def recall_rows(
        self, scope: Scope, ids: Sequence[MemoryId], filters: Filters, model_key: str, unindexed: int
    ) -> list[RecalledRow]:
        """The live rows among `ids` that pass `filters`, plus up to `unindexed` of the newest that still wait for the index, in no
        order. One read. Ids of others, or gone, are silently absent: to the caller they do not exist."""

    async def recent(self, scope: Scope, limit: int) -> list[Memory]:
        """Active entries, most important and newest first: what recall falls back to without an index, and preloading."""

    async def write(
        self,
        scope: Scope,
        lookup: Lookup,
        decide: Callable[[Sequence[Memory]], Plan],
        audit: Sequence[AuditEvent],
        max_entries: int,
    ) -> Plan:
        """Read what `lookup` names, call `decide` (pure; may run again on a retried transaction), write its changes, history,
        audit and dirty marks: all or nothing, serialised per user, so that two writers of one fact make one entry. An Insert
        whose id exists is ignored (a retried request). Over `max_entries` live entries: Overloaded."""

    async def delete(self, scope: Scope, ids: Sequence[MemoryId] | None, audit: AuditEvent) -> Receipt:
        """L10: content, history and token vectors go at once; the row stays as a tombstone without content until the index has
        verified absence. None: every entry of scope.user. An id that is not the user's: NotFound("memory"), nothing deleted."""

    async def retract_turns(self, scope: Scope, turn_ids: Sequence[TurnId], audit: AuditEvent) -> Retracted:
        """For scope.session. Entries that also came from other turns stay; entries encoded with one of these as context lose
        their token vectors and are marked to be encoded again without it; an entry that a deleted one had retired is active again."""

    async def touch(self, scope: Scope, ids: Sequence[MemoryId], at: datetime) -> None:
        """Access counts, after the response."""

    async def audit(self, scope: Scope, events: Sequence[AuditEvent]) -> None: ...

    async def note_reads(self, scope: Scope, reads: Sequence[Read]) -> None:
        """Access counts and audit of many reads, whoever's, in one transaction. Needs Grant.SYSTEM: each read names its own scope.
        What is gone by then is audited all the same."""

    async def receipt(self, scope: Scope, receipt_id: str) -> Receipt:
        """NotFound("receipt"). A scope without a user sees every receipt of its tenant: for Grant.ADMIN alone."""

    async def ping(self) -> None: ...


class Records(RecordStore, WorkQueue, ErasureStore, Protocol):
    """All that one connection to the records can do: what a replica holds."""
