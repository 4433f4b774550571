"""Erasure (I3): a fence, an order that workers carry out step by step, and a receipt that says what each store was found to hold.

An erasure is level-triggered like the dirty table: every step may run again, by any worker, in any order after a crash.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from memory.ids import UserId, UserRef
from memory.scope import Scope
from storage.protocols.audit import AuditEvent


@dataclass(frozen=True, slots=True)
class StoreReport:
    """One store in a receipt. `before`: what was found there; `after`: what the last check found (None: not checked yet; only 0 is
    done). `method` says in our own words how it was removed."""

    before: int
    after: int | None
    method: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof of a deletion: what was asked, how many entries it took, what each store held before and after. Pending while
    `completed_at` is None. `user_id` is None where a whole tenant went."""

    id: str
    action: str
    count: int
    requested_at: datetime
    completed_at: datetime | None = None
    stores: Mapping[str, StoreReport] = field(default_factory=dict)
    user_id: UserId | None = None


@dataclass(frozen=True, slots=True)
class Erasure:
    """One claimed erasure of a user (scope.user_id) or of a whole tenant (None). `refs` are what the index knew the user by."""

    receipt_id: str
    scope: Scope
    refs: tuple[UserRef, ...]
    phase: Literal["erase", "verify"]
    requested_at: datetime
    stores: Mapping[str, StoreReport]
    attempts: int = 0


class ErasureStore(Protocol):
    """The SQL side of erasures."""

    async def erase_user(
        self, scope: Scope, audit: AuditEvent, stores: Mapping[str, StoreReport] | None = None
    ) -> Receipt:
        """In one transaction: the fence goes up (every later write for scope.user is a Conflict until the erasure is complete), his key
        is destroyed, his entries become empty tombstones. Being erased already: that receipt again. NotFound("user").
        `stores`: what other stores were found to hold before, for the receipt."""

    async def erase_tenant(self, scope: Scope, audit: AuditEvent) -> Receipt:
        """The same for scope's tenant: suspended and fenced for good, every key of its users destroyed. Needs Grant.SYSTEM.
        The rows themselves go in bounded steps, by `erase_rows`. NotFound("tenant")."""

    async def claim_erasures(
        self, scope: Scope, worker: str, limit: int, lease_s: float, now: datetime
    ) -> list[Erasure]:
        """Due ones that nobody holds, for this worker until now + lease_s. Needs Grant.SYSTEM, as do all that follow."""

    async def erase_rows(self, scope: Scope, limit: int) -> int:
        """At most `limit` rows of a fenced tenant go, with all that hangs on them. Returns how many; 0 when none is left."""

    async def count_rows(self, scope: Scope) -> int:
        """Rows of scope.user (or of the whole tenant) that still say something, in every table: 0 is what an erasure has to show.
        Audit, receipts and tombstones say nothing."""

    async def tenant_users(self, scope: Scope, after: UserId | None, limit: int) -> Sequence[UserId]:
        """Of scope's tenant, in ascending order: whose sessions have to go."""

    async def advance_erasure(
        self, scope: Scope, erasure: Erasure, worker: str, stores: Mapping[str, StoreReport], verify_at: datetime | None
    ) -> bool:
        """Keep `stores` in the receipt. With `verify_at`: phase `verify`, due then. With None: complete; what is left (tombstones, the
        fence, the tenant's row) goes, the receipt is dated. False, and due again soon, where another worker holds it by now or
        tombstones still wait for the index."""

    async def fail_erasure(self, scope: Scope, erasure: Erasure, worker: str, retry_at: datetime) -> None: ...
