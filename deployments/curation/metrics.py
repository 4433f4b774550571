"""What the workers count. No label ever holds an id or a word of anybody's."""

from datetime import datetime

from prometheus_client import Counter, Gauge

from memory.drift import Drift
from storage.protocols import Backlog

BACKLOG = Gauge(
    "strata_index_backlog",
    "Entries that wait for the index, deletions to be verified included.",
    multiprocess_mode="mostrecent",
)
BACKLOG_AGE = Gauge(
    "strata_index_backlog_age_seconds",
    "How long the oldest entry that waits for the index has been waiting.",
    multiprocess_mode="mostrecent",
)
HEALED = Counter("strata_index_healed", "Differences between index and records that were found and mended.", ["what"])
ERASURES = Counter(
    "strata_erasures_completed", "Erasures of users and tenants that were verified in every store.", ["of"]
)

PARTITION = "partition"
"""A partition left over from a tenant that is gone. (One that a living tenant lacks shows as its entries missing.)"""

for _what in (*Drift, PARTITION):
    HEALED.labels(str(_what))  # so that a rate can be asked for before anything ever went wrong


def healed(what: str, count: int = 1) -> None:
    if count:
        HEALED.labels(what).inc(count)


def observe_backlog(backlog: Backlog, now: datetime) -> None:
    BACKLOG.set(backlog.entries)
    BACKLOG_AGE.set(0.0 if backlog.oldest is None else max(0.0, (now - backlog.oldest).total_seconds()))
