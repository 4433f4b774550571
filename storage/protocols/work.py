"""What Strata's own workers need of the records. Every call needs Grant.SYSTEM."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from memory.encoding import PackedTokens
from memory.entry import Memory
from memory.ids import MemoryId, UserId
from memory.scope import Scope
from storage.protocols.keys import UserKey


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


@dataclass(frozen=True, slots=True)
class Backlog:
    """How many entries wait for the index (deletions to be verified included), since when the oldest does (None: none), and how many
    erasures of users and tenants are not seen through yet."""

    entries: int
    oldest: datetime | None = None
    erasures: int = 0


@dataclass(frozen=True, slots=True)
class SweptRow:
    """An entry as the sweeper compares it: `version` of the row, `live` unless it is a tombstone, `waiting` while it is dirty."""

    id: MemoryId
    user_id: UserId
    version: int
    live: bool
    waiting: bool


class WorkQueue(Protocol):
    """The dirty table, and what the sweeper and the keepers of keys read and mark."""

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

    async def backlog(self, scope: Scope) -> Backlog: ...

    async def rows_after(self, scope: Scope, after: MemoryId | None, limit: int) -> list[SweptRow]:
        """Of scope's tenant, tombstones included, in ascending order of ids compared byte for byte: the sweeper's walk."""

    async def rows_of(self, scope: Scope, ids: Sequence[MemoryId]) -> list[SweptRow]:
        """Those of `ids` that have a row in scope's tenant, in no order."""

    async def mark(self, scope: Scope, ids: Sequence[MemoryId]) -> int:
        """Make the entries of scope's tenant dirty again, whoever's they are. Returns how many there were."""

    async def rewrap_keys(self, scope: Scope, rewrapped: Callable[[Scope, UserKey], bytes | None], limit: int) -> int:
        """Store anew the wrapped keys for which `rewrapped(scope, key)` gives other bytes than they have (None: leave it), at most
        `limit` of them, each only if it did not change meanwhile. Returns how many; 0 where nothing is left to do."""

    async def replace_key(self, scope: Scope, key: UserKey) -> UserKey | None:
        """Rotation: scope.user has `key` from now on, his token vectors go and all his entries are dirty. Returns the old key, whose
        reference the index must be cleared of once nothing of his is dirty; None for a user who has none."""
