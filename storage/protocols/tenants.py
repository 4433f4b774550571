"""Tenants, their keys, and which embedding model an index is of."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from memory.ids import MemoryId, TenantId
from memory.scope import Grant, Scope


@dataclass(frozen=True, slots=True)
class TenantRecord:
    """`erasing`: an erasure of all of it has begun; its fence lets no write through."""

    id: TenantId
    display_name: str
    policy: dict[str, Any]
    version: int
    suspended: bool = False
    erasing: bool = False


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


class VersionState(StrEnum):
    BUILDING = "building"  # a reindex fills it
    READY = "ready"  # equal to the records when it was last compared; a start with its model makes it active
    ACTIVE = "active"  # what is answered from
    RETIRED = "retired"  # no longer answered from; deletions still reach it until it is dropped


@dataclass(frozen=True, slots=True)
class IndexVersion:
    """One index of all entries, made by one model. `details`: name, prefix, digest of means, for people. `at`: how far a reindex
    has come, as the last (tenant, entry) that it wrote."""

    model_key: str
    dimension: int
    state: VersionState
    details: dict[str, Any] = field(default_factory=dict)
    created_at: datetime | None = None
    activated_at: datetime | None = None
    at: tuple[TenantId, MemoryId] | None = None


class VersionStore(Protocol):
    """Needs Grant.SYSTEM."""

    async def versions(self, scope: Scope) -> list[IndexVersion]:
        """All of them, oldest first."""

    async def put(self, scope: Scope, version: IndexVersion) -> None:
        """Insert, or replace the one with the same model key."""

    async def activate(self, scope: Scope, model_key: str, now: datetime) -> None:
        """That one is active, the one that was is retired, in one transaction. NotFound("index version")."""

    async def drop(self, scope: Scope, model_key: str) -> int:
        """The version's row and every token vector of its model. Returns how many of these there were. Conflict if it is active."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a tenant's entries lie in a shared index: `shard` of the collection that all share, or a `collection` of its own.
    `moving_to` while both are written and the old one is still read."""

    place: str
    moving_to: str | None = None
    since: datetime | None = None


class PlacementStore(Protocol):
    """Needs Grant.SYSTEM. A tenant without a placement is in `shard`."""

    async def placements(self, scope: Scope, model_key: str) -> dict[TenantId, Placement]: ...

    async def place(self, scope: Scope, model_key: str, placement: Placement) -> None:
        """Of scope's tenant."""
