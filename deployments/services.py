"""What a replica holds: the stores, the models' handles, policies. Built once, asynchronously, inside the replica."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from deployments.background import Background
from deployments.inference_client import EmbeddingModel, RerankingModel
from deployments.policies import PolicyCache
from deployments.reads import ReadLog
from deployments.settings import Deadlines
from storage.index.blind import BlindIndex
from storage.protocols import IdempotencyStore, Records, SessionStore, TenantStore
from storage.receipts import ReceiptSigner
from storage.sessions.rates import RequestRates

if TYPE_CHECKING:  # authenticate knows Services' parts, Services holds the authenticator
    from deployments.edge.authenticate import Authenticator

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class Services:
    sessions: SessionStore
    idempotency: IdempotencyStore
    records: Records
    tenants: TenantStore
    index: BlindIndex
    embedder: EmbeddingModel
    policies: PolicyCache
    authenticator: "Authenticator"
    rates: RequestRates
    deadlines: Deadlines
    background: Background
    receipts: ReceiptSigner
    reranker: RerankingModel | None = None
    clock: Clock = utc_now
    entropy: Callable[[int], bytes] = os.urandom
    wake_curator: Callable[[], None] = lambda: None
    others: Callable[[], Sequence[BlindIndex]] = tuple
    """The indexes of other models that are being built or are not dropped yet, as of the last poll: deletions must reach them."""
    retired: Callable[[], bool] = lambda: False
    """Whether another model's index is the active one by now: then this replica answers, and indexes nothing more."""
    reads: ReadLog = field(init=False)

    def __post_init__(self) -> None:
        self.reads = ReadLog(self.records, self.background)
