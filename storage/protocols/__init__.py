"""One protocol for each store. Both backends of each pass one contract suite (tests/contract).

Every call takes a `Scope` first. A foreign id answers like one that does not exist. Empty lists mean nothing, never
everything. Waiting is bounded by each backend's own deadline; a store that cannot be reached raises Unavailable, one that
does not answer raises DeadlineExceeded; a server's own text never reaches the caller.
"""

from storage.protocols.audit import AuditEvent, Read
from storage.protocols.erasure import Erasure, ErasureStore, Receipt, StoreReport
from storage.protocols.index import Hit, SealedEntry, SealedQuery, VectorIndex, WalkPage
from storage.protocols.keys import UserKey
from storage.protocols.page import Page
from storage.protocols.records import (
    Change,
    Filters,
    Insert,
    Lookup,
    Plan,
    RecalledRow,
    Records,
    RecordStore,
    Retracted,
    Update,
)
from storage.protocols.sessions import Claim, Due, IdempotencyStore, ReplacedTurns, SessionStore
from storage.protocols.tenants import (
    IndexVersion,
    KeyRecord,
    Placement,
    PlacementStore,
    TenantRecord,
    TenantStore,
    VersionState,
    VersionStore,
)
from storage.protocols.work import Backlog, DirtyItem, SweptRow, WorkQueue

__all__ = [
    "AuditEvent",
    "Backlog",
    "Change",
    "Claim",
    "DirtyItem",
    "Due",
    "Erasure",
    "ErasureStore",
    "Filters",
    "Hit",
    "IdempotencyStore",
    "IndexVersion",
    "Insert",
    "KeyRecord",
    "Lookup",
    "Page",
    "Placement",
    "PlacementStore",
    "Plan",
    "Read",
    "RecalledRow",
    "Receipt",
    "RecordStore",
    "Records",
    "ReplacedTurns",
    "Retracted",
    "SealedEntry",
    "SealedQuery",
    "SessionStore",
    "StoreReport",
    "SweptRow",
    "TenantRecord",
    "TenantStore",
    "Update",
    "UserKey",
    "VectorIndex",
    "VersionState",
    "VersionStore",
    "WalkPage",
    "WorkQueue",
]
