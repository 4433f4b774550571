"""One protocol for each store. Both backends of each pass one contract suite (tests/contract).

Every call takes a `Scope` first. A foreign id answers like one that does not exist. Empty lists mean nothing, never
everything. Waiting is bounded by each backend's own deadline; a store that cannot be reached raises Unavailable, one that
does not answer raises DeadlineExceeded; a server's own text never reaches the caller.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Literal, Protocol, TypeVar

from memory.encoding import PackedTokens, Vector
from memory.entry import Kind, Memory, Revision, Status
from memory.ids import MemoryId, SessionId, TenantId, TurnId, UserId, UserRef
from memory.scope import Grant, Scope
from memory.turns import NewTurn, Session, SessionSnapshot, TaskState, Turn
from memory.verdict import Verdict

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """`next_cursor` is opaque, valid for its caller alone; None on the last page."""

    items: tuple[T, ...]
    next_cursor: str | None = None


# --- sessions ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReplacedTurns:
    """What an edit or a retraction took away: the turn itself and those after it, and the turn that stands there now."""

    removed: tuple[Turn, ...]
    turn: Turn | None = None


class SessionStore(Protocol):
    """Sessions live by their TTL, which every call on a session renews (T1). All calls but `open`, `list` need scope.session;
    all need scope.user. A session of another user or tenant, or an expired one, is NotFound("session") (P23)."""

    async def open(self, scope: Scope, session: Session, ttl_s: int, limit: int) -> Session:
        """Create scope.session for scope.user. Exists already for this user: returned as it is, renewed. More than `limit` live
        sessions of this user: Overloaded. `session.expires_at` in the answer is the real one."""

    async def get(self, scope: Scope) -> Session: ...

    async def page(self, scope: Scope, limit: int, cursor: str | None) -> Page[Session]:
        """The user's live sessions, newest first."""

    async def drop(self, scope: Scope) -> bool:
        """Everything of the session goes at once. False where there was none (idempotent)."""

    async def append(self, scope: Scope, turns: Sequence[NewTurn], max_turns: int) -> tuple[Turn, ...]:
        """In order, all or none, atomically under concurrent writers. A turn whose id is already in the session is not added
        again: its stored form is answered (P34: a retry stores nothing twice). Over `max_turns` in the session: Conflict."""

    async def turns(self, scope: Scope, limit: int, cursor: str | None) -> Page[Turn]:
        """The transcript, oldest first."""

    async def peek(self, scope: Scope, turn_ids: Sequence[TurnId]) -> tuple[Turn, ...]:
        """Those of the turns that are still kept, oldest first. A worker's look: the TTL is not renewed."""

    async def owner(self, scope: Scope) -> UserId:
        """Whose scope.session is, within scope's tenant: for a tenant key that names a session alone. NotFound("session")."""

    async def load(self, scope: Scope, last_turns: int) -> SessionSnapshot:
        """The hot path's read: one round trip."""

    async def replace_turn(self, scope: Scope, turn_id: TurnId, turn: NewTurn) -> ReplacedTurns:
        """P31: the turn is replaced in place (same id and seq), those after it go, atomically. NotFound("turn")."""

    async def remove_turn(self, scope: Scope, turn_id: TurnId | None) -> ReplacedTurns:
        """That turn alone goes (None: the last user turn and what followed it). NotFound("turn")."""

    async def state(self, scope: Scope) -> TaskState: ...

    async def put_state(self, scope: Scope, state: TaskState, expected_version: int) -> TaskState:
        """Compare-and-set: stores `state` as version expected_version + 1, or Conflict carrying the current version."""

    async def set_preloaded(self, scope: Scope, ids: Sequence[MemoryId]) -> None: ...

    async def forget_user(self, scope: Scope) -> int:
        """Every session of scope.user, whole. Returns how many there were."""

    async def ping(self) -> None:
        """Raises Unavailable unless the store answers."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The state of an Idempotency-Key: `run` (do the work, then `finish`), `done` (answer again), or the call raises."""

    state: Literal["run", "done"]
    status: int = 0
    body: bytes = b""


class IdempotencyStore(Protocol):
    """24 h per tenant and user. Same key and digest: the same answer; another digest: IdempotencyMismatch; still running: Conflict.
    A claim whose holder died is free again after `lease_s`."""

    async def claim(self, scope: Scope, key: str, digest: str, lease_s: float) -> Claim: ...

    async def finish(self, scope: Scope, key: str, digest: str, status: int, body: bytes) -> None: ...

    async def release(self, scope: Scope, key: str, digest: str) -> None:
        """The work failed and left nothing: the key may be used again."""


# --- records ----------------------------------------------------------------------------------------------------------


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
    """What the join brings: the live row, its sealed token vectors (None until indexed), whether it waits for the index, and
    the outdated entry that it replaced, if one is kept."""

    memory: Memory
    tokens: PackedTokens | None
    unindexed: bool = False
    predecessor: Memory | None = None


@dataclass(frozen=True, slots=True)
class Lookup:
    """Which of the user's own entries a new candidate must be compared with (L5: never another's).

    Their union is read inside the transaction that also writes: live entries with one of `subjects`, with one of `fingerprints`
    (exact, after normalisation by memory.text.fingerprint), among `near` (ids that a search found), and, because the index
    lags, the newest `unindexed` entries that wait for it.
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
class Receipt:
    """Proof of a deletion: what was asked, how many entries it took, and when each store was done (None: pending)."""

    id: str
    action: str
    count: int
    requested_at: datetime
    completed_at: datetime | None = None
    stores: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Retracted:
    """What went because a turn went (P31, W7): entries learnt from those turns alone, and entries brought back to active because
    what had retired them is gone."""

    deleted: tuple[MemoryId, ...] = ()
    restored: tuple[MemoryId, ...] = ()
    changed: tuple[MemoryId, ...] = ()


@dataclass(frozen=True, slots=True)
class UserKey:
    """A user as an index knows it: the reference and the wrapped key (see storage/keys.py)."""

    ref: UserRef
    wrapped: bytes


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
class DirtyItem:
    """One claimed memory of the `dirty` table. `mark` changes whenever the row is dirtied again: `finish` only succeeds on an
    unchanged mark. `memory` is the row's current state, None where the row is gone or deleted."""

    scope: Scope
    memory_id: MemoryId
    mark: int
    phase: Literal["apply", "verify"]
    memory: Memory | None
    attempts: int = 0
    token_model: str | None = None
    """The key of the model whose token vectors lie beside the row in its current version, if any do."""


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
        order. One statement. Ids of others, or gone, are silently absent: to the caller they do not exist."""

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

    async def receipt(self, scope: Scope, receipt_id: str) -> Receipt: ...

    # The curator's side: needs Grant.SYSTEM.

    async def claim_dirty(
        self, scope: Scope, worker: str, limit: int, lease_s: float, now: datetime
    ) -> list[DirtyItem]: ...

    async def store_tokens(
        self, scope: Scope, memory_id: MemoryId, model_key: str, version: int, tokens: PackedTokens
    ) -> bool:
        """Beside the row. False, and nothing stored, where the row is gone or has another version by now."""

    async def finish_dirty(self, scope: Scope, item: DirtyItem, worker: str, verify_at: datetime | None) -> bool:
        """Done with `item`: False where it changed meanwhile (it stays dirty). With `verify_at` it moves on to phase `verify`, due
        then; a verified deletion removes the tombstone."""

    async def fail_dirty(self, scope: Scope, item: DirtyItem, worker: str, retry_at: datetime) -> None: ...

    async def backlog(self, scope: Scope) -> int: ...

    async def ping(self) -> None: ...


@dataclass(frozen=True, slots=True)
class TenantRecord:
    id: TenantId
    display_name: str
    policy: dict[str, Any]
    version: int
    suspended: bool = False


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A tenant key at rest: only a keyed hash of the secret."""

    id: str
    tenant_id: TenantId
    name: str
    digest: bytes
    grants: frozenset[Grant]
    expires_at: datetime | None = None


class TenantStore(Protocol):
    """Tenants and their keys. Needs Grant.SYSTEM: it is what scopes are made from."""

    async def tenant(self, scope: Scope, tenant_id: TenantId) -> TenantRecord: ...

    async def tenants(self, scope: Scope) -> list[TenantRecord]: ...

    async def versions(self, scope: Scope) -> dict[TenantId, int]:
        """For the policy cache's poll: one small statement."""

    async def apply(self, scope: Scope, tenant: TenantRecord, keys: Sequence[KeyRecord]) -> bool:
        """Upsert the tenant and exactly these keys, atomically. True where anything changed (the version goes up)."""

    async def key(self, scope: Scope, key_id: str) -> KeyRecord: ...


# --- index ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SealedEntry:
    """An entry as an index may see it: everything sealed under the user's key (memory/seal.py).

    `terms` are of the entry, `context_terms` of the turn before it, indexed at a lower weight.
    """

    id: MemoryId
    user_ref: UserRef
    version: int
    vector: Vector
    terms: tuple[str, ...]
    context_terms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SealedQuery:
    user_ref: UserRef
    vector: Vector | None
    terms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hit:
    """`cosine` is None where only the keyword arm found it, `bm25` (higher is better) where only the vector arm did."""

    id: MemoryId
    version: int
    cosine: float | None
    bm25: float | None


class VectorIndex(Protocol):
    """Derived from SQL, can be rebuilt. A tenant has a partition; the user filter is applied before the nearest-neighbour cut (P38).
    Vectors must be finite, unit length and of the index's dimension: InvalidInput before anything is stored."""

    async def upsert(self, scope: Scope, entries: Sequence[SealedEntry]) -> None: ...

    async def remove(self, scope: Scope, ids: Sequence[MemoryId]) -> None:
        """Idempotent."""

    async def present(self, scope: Scope, ids: Sequence[MemoryId]) -> set[MemoryId]:
        """Which of `ids` the index still holds: verification of deletes, and the sweeper."""

    async def search(self, scope: Scope, query: SealedQuery, vector_limit: int, keyword_limit: int) -> list[Hit]:
        """The union of both arms, each cut at its own limit (0: that arm is off). No terms or no vector: that arm finds nothing."""

    async def ids(self, scope: Scope, after: MemoryId | None, limit: int) -> list[MemoryId]:
        """The partition's ids in ascending order: the sweeper's walk."""

    async def scrub(self, scope: Scope) -> None:
        """After an erasure: what was removed is physically gone as far as the backend can see to it (local: file, free pages, log)."""

    async def drop_tenant(self, scope: Scope) -> None: ...

    async def ping(self) -> None: ...
