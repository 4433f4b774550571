"""The vector index: derived from the records, blind to what it holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from memory.encoding import Vector
from memory.ids import MemoryId, TenantId, UserRef
from memory.scope import Scope


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


@dataclass(frozen=True, slots=True)
class WalkPage:
    """Ids and versions in the index's own order. `next_cursor` goes on from here; None at the end."""

    entries: tuple[tuple[MemoryId, int], ...]
    next_cursor: str | None = None


class VectorIndex(Protocol):
    """Derived from SQL, can be rebuilt. One model's vectors. A tenant has a partition; the user filter is applied before the
    nearest-neighbour cut (P38). Vectors must be finite, unit length and of the index's dimension: InvalidInput before anything is
    stored. Reads and removals of a tenant without a partition find nothing."""

    async def check(self) -> None:
        """At start-up: ConfigError, one line that says what to do, unless what is there is this model's and made as this release
        makes it."""

    async def ensure_tenant(self, scope: Scope) -> None:
        """Make the tenant's partition where there is none. The only call that does: a late write must not bring a dropped one back."""

    async def upsert(self, scope: Scope, entries: Sequence[SealedEntry]) -> None:
        """All or an error; again after an error is harmless. NotFound("partition") where the tenant has none. An older version of
        an entry than the stored one, of the same reference, changes nothing where the backend can tell."""

    async def remove(self, scope: Scope, ids: Sequence[MemoryId]) -> None:
        """From every copy. Idempotent. Unavailable where a copy could not be reached."""

    async def remove_user(self, scope: Scope, ref: UserRef) -> int:
        """Everything under this reference. Returns how many were found."""

    async def versions(self, scope: Scope, ids: Sequence[MemoryId]) -> dict[MemoryId, int]:
        """Of those of `ids` that the index holds: the sweeper's look."""

    async def remaining(self, scope: Scope, ids: Sequence[MemoryId]) -> set[MemoryId]:
        """Those of `ids` that any copy still holds: what a deletion is verified by. Unavailable unless every copy has answered."""

    async def search(self, scope: Scope, query: SealedQuery, vector_limit: int, keyword_limit: int) -> list[Hit]:
        """The union of both arms, each cut at its own limit (0: that arm is off). No terms or no vector: that arm finds nothing."""

    async def walk(self, scope: Scope, cursor: str | None, limit: int) -> WalkPage:
        """Every entry of the partition, page by page: the sweeper's walk. Entries that come or go meanwhile may be missed."""

    async def count(self, scope: Scope, ref: UserRef | None) -> int:
        """Entries under this reference; None: of the whole partition."""

    async def tenants(self, scope: Scope) -> set[TenantId]:
        """Which tenants have a partition. Needs Grant.SYSTEM."""

    async def scrub(self, scope: Scope) -> None:
        """After an erasure: what was removed is physically gone as far as the backend can see to it (local: file, free pages, log)."""

    async def drop_tenant(self, scope: Scope) -> None:
        """The partition with all that is in it. Idempotent. A late `upsert` is refused from then on."""

    async def ping(self) -> None:
        """Raises Unavailable unless the index takes a write."""

    async def aclose(self) -> None: ...
