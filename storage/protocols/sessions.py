"""The session tier: sessions, turns, state, and the claims of Idempotency-Keys."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from memory.ids import MemoryId, TurnId, UserId
from memory.scope import Scope
from memory.turns import NewTurn, Session, SessionSnapshot, TaskState, Turn
from storage.protocols.page import Page


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

    async def load(self, scope: Scope, last_turns: int, due: "Due | None" = None) -> SessionSnapshot:
        """The hot path's read: one round trip, which also counts the request that is `due`; Overloaded over its tenant's rate."""

    async def replace_turn(self, scope: Scope, turn_id: TurnId, turn: NewTurn) -> ReplacedTurns:
        """P31: the turn is replaced in place (same id and seq), those after it go, atomically. NotFound("turn")."""

    async def remove_turn(self, scope: Scope, turn_id: TurnId | None) -> ReplacedTurns:
        """That turn alone goes (None: the last user turn and what followed it). NotFound("turn")."""

    async def state(self, scope: Scope) -> TaskState: ...

    async def put_state(self, scope: Scope, state: TaskState, expected_version: int) -> TaskState:
        """Compare-and-set: stores `state` as version expected_version + 1, or Conflict carrying the current version."""

    async def set_preloaded(self, scope: Scope, ids: Sequence[MemoryId]) -> None: ...

    async def forget_user(self, scope: Scope, fence_s: float = 0) -> int:
        """Every session of scope.user, whole, and what else is kept of him. Returns how many sessions there were. For `fence_s`
        from now `open` refuses him (Conflict), so that a request that was under way cannot bring him back; appending to a
        session that went is NotFound as ever."""

    async def lift_fence(self, scope: Scope) -> None:
        """The erasure is complete: scope.user (or the tenant, where the scope names no user) may begin anew at once. Needs
        Grant.SYSTEM."""

    async def count_user(self, scope: Scope) -> int:
        """How many sessions of scope.user are kept: 0 is what an erasure has to show."""

    async def forget_tenant(self, scope: Scope, fence_s: float = 0) -> int:
        """The same for every user of scope's tenant. Needs Grant.SYSTEM. Walks the whole store in bounded steps."""

    async def count_tenant(self, scope: Scope) -> int:
        """How many keys of the tenant are kept, of whatever kind (rates aside). Needs Grant.SYSTEM."""

    async def ping(self) -> None:
        """Raises Unavailable unless the store answers."""


@dataclass(slots=True)
class Due:
    """A request that is yet to be counted against its tenant's rate. Rates live with the sessions: who reads a session anyway
    counts it in the same round trip. `taken`: somebody has, or has tried to."""

    per_minute: int
    taken: bool = False


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

    async def forget_user(self, scope: Scope) -> int:
        """Every claim of scope.user with the answer that it keeps. Returns how many there were."""

    async def count_user(self, scope: Scope) -> int: ...
