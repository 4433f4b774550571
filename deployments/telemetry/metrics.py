"""Every metric that the deployments count, in one place. Labels are bounded and ours: route templates, known methods, status classes,
method names of stores, a first few hundred tenants (tenants are declared, not invented by callers). Never an id or a word of anybody's.

Each process counts in files of its own where PROMETHEUS_MULTIPROC_DIR names a folder; deployments/telemetry/exposition.py adds them up.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from prometheus_client import Counter, Gauge, Histogram

from deployments.telemetry import processes
from memory.drift import Drift
from memory.verdict import Decision, Verdict
from storage.protocols import Backlog

processes.hold()  # from here on files of this process lie where it counts

MAX_TENANTS = 500
METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
SECONDS_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
STORE_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2)
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 1)

# --- requests ---------------------------------------------------------------------------------------------------------

REQUESTS = Counter("strata_http_requests", "HTTP requests answered.", ["route", "method", "status", "tenant"])
SECONDS = Histogram(
    "strata_http_request_seconds", "Time to answer an HTTP request.", ["route", "method"], buckets=SECONDS_BUCKETS
)
IN_FLIGHT = Gauge(
    "strata_http_requests_in_flight", "HTTP requests that are being answered.", multiprocess_mode="livesum"
)
BACKGROUND_DROPPED = Counter(
    "strata_background_dropped", "Work after the response that was dropped: too much of it ran already."
)

# --- models -----------------------------------------------------------------------------------------------------------

QUEUE_ITEMS = Gauge("strata_queue_items", "Texts that wait for a model.", ["model"], multiprocess_mode="livesum")
QUEUE_TOKENS = Gauge("strata_queue_tokens", "Tokens that wait for a model.", ["model"], multiprocess_mode="livesum")
QUEUE_WAIT = Histogram(
    "strata_queue_wait_seconds",
    "How long a text waited for the device.",
    ["model"],
    buckets=(0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 15, 60),
)
QUEUE_REFUSED = Counter(
    "strata_queue_refused", "Texts that were not run: overloaded, expired or cancelled.", ["model", "reason"]
)
BATCH_ITEMS = Histogram(
    "strata_batch_items", "Texts in one run of the device.", ["model"], buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256)
)
BATCH_TOKENS = Histogram(
    "strata_batch_tokens",
    "Tokens in one run of the device, without padding.",
    ["model"],
    buckets=(16, 64, 256, 1024, 4096, 16384, 65536),
)
BATCH_SECONDS = Histogram(
    "strata_batch_seconds", "Time of one run of the device.", ["model"], buckets=(*STORE_BUCKETS[2:], 10)
)
HANDLE_SECONDS = Histogram(
    "strata_handle_seconds", "Time of a call to another deployment.", ["deployment"], buckets=SECONDS_BUCKETS
)
HANDLE_RETRIES = Counter(
    "strata_handle_retries", "Calls that were made once more, because the replica died under them.", ["deployment"]
)

# --- recall, gate and prompt ------------------------------------------------------------------------------------------

CANDIDATES = Histogram(
    "strata_recall_candidates", "Entries that a recall looked at.", buckets=(0, 1, 5, 10, 25, 50, 100, 200, 400)
)
RECALLED = Histogram(
    "strata_context_memories", "Memories that a context call put into the prompt.", buckets=(0, 1, 2, 4, 8, 16, 32)
)
MEMORY_TOKENS = Histogram(
    "strata_context_memory_tokens",
    "Tokens of memories in the prompt.",
    buckets=(0, 25, 50, 100, 200, 400, 800, 1600),
)
CONTEXT_TOKENS = Histogram(
    "strata_context_tokens", "Tokens of the whole prompt.", buckets=(100, 250, 500, 1000, 2000, 4000, 8000, 32000)
)
BUDGET_SHARE = Histogram("strata_context_budget_share", "Part of the budget that the prompt takes.", buckets=SHARES)
CUT = Counter("strata_context_cut", "Context calls in which something of a section was cut.", ["section"])
DEGRADED = Counter("strata_degraded", "Answers that had to do without a part.", ["part"])
VERDICTS = Counter("strata_gate_verdicts", "What became of each sentence that was considered.", ["decision", "reason"])

# --- caches -----------------------------------------------------------------------------------------------------------

CACHE = Counter("strata_cache_lookups", "Lookups in a cache, and whether it knew.", ["cache", "result"])

# --- stores and workers -----------------------------------------------------------------------------------------------

STORE_SECONDS = Histogram(
    "strata_store_seconds", "Time of a call to a store.", ["store", "method"], buckets=STORE_BUCKETS
)
STORE_ERRORS = Counter(
    "strata_store_errors", "Calls to a store that failed for a reason of its own.", ["store", "kind"]
)
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
ERASURES_PENDING = Gauge(
    "strata_erasures_pending", "Erasures that are not seen through yet.", multiprocess_mode="mostrecent"
)
HEALED = Counter("strata_index_healed", "Differences between index and records that were found and mended.", ["what"])
ERASURES = Counter(
    "strata_erasures_completed", "Erasures of users and tenants that were verified in every store.", ["of"]
)

# --- processes --------------------------------------------------------------------------------------------------------

REPLICA_UP = Gauge("strata_replica_up", "Replicas that live.", ["deployment"], multiprocess_mode="livesum")
BUILD = Gauge("strata_build_info", "Always 1; the version is its label.", ["version"], multiprocess_mode="livemax")
CPU_SECONDS = Counter("strata_process_cpu_seconds", "CPU time of the replicas.", ["deployment"])
RESIDENT = Gauge(
    "strata_process_resident_bytes", "Resident memory of the replicas.", ["deployment"], multiprocess_mode="livesum"
)
SPANS = Counter("strata_trace_spans", "Spans handed to the collector, or lost.", ["result"])

PARTITION = "partition"
"""A partition left over from a tenant that is gone. (One that a living tenant lacks shows as its entries missing.)"""
PARTS = ("embedder", "index", "records", "reranker")
STORES = ("sessions", "idempotency", "rates", "records", "tenants", "index")
SECTIONS = ("slots", "summary", "memories", "documents", "recent")
"""Of a prompt: those of which something may be cut."""

# A rate can be asked for before anything ever went wrong.
for _what in (*Drift, PARTITION):
    HEALED.labels(str(_what))
for _part in PARTS:
    DEGRADED.labels(_part)
for _store in STORES:
    for _kind in ("unavailable", "deadline-exceeded"):
        STORE_ERRORS.labels(_store, _kind)
for _section in SECTIONS:
    CUT.labels(_section)
for _of in ("user", "tenant"):
    ERASURES.labels(_of)
for _result in ("exported", "failed"):
    SPANS.labels(_result)

_tenants: set[str] = set()


def _bounded(tenant: str) -> str:
    if tenant in _tenants:
        return tenant
    if len(_tenants) >= MAX_TENANTS:
        return "other"
    _tenants.add(tenant)
    return tenant


def known_method(method: str) -> str:
    return method if method in METHODS else "other"


def observe(route: str, method: str, status: int, tenant: str, seconds: float) -> None:
    """One HTTP request, answered. `method` by `known_method`."""
    REQUESTS.labels(route, method, f"{status // 100}xx", _bounded(tenant)).inc()
    SECONDS.labels(route, method).observe(seconds)


class CacheCount:
    """Hits and misses of one cache; its counters are looked up once."""

    def __init__(self, cache: str) -> None:
        self._hit, self._miss = CACHE.labels(cache, "hit"), CACHE.labels(cache, "miss")

    def __call__(self, hit: bool) -> None:
        (self._hit if hit else self._miss).inc()


def healed(what: str, count: int = 1) -> None:
    if count:
        HEALED.labels(what).inc(count)


def observe_backlog(backlog: Backlog, now: datetime) -> None:
    BACKLOG.set(backlog.entries)
    ERASURES_PENDING.set(backlog.erasures)
    BACKLOG_AGE.set(0.0 if backlog.oldest is None else max(0.0, (now - backlog.oldest).total_seconds()))


def count_learning(verdicts: Iterable[Verdict], degraded: Iterable[str] = ()) -> None:
    """Reasons are names of ours (memory/verdict.py, memory/merge.py), never what was said."""
    for verdict in verdicts:
        VERDICTS.labels(Decision(verdict.decision).value, str(verdict.reason)).inc()
    count_degraded(degraded)


def count_degraded(parts: Iterable[str]) -> None:
    for part in parts:
        DEGRADED.labels(part).inc()


def observe_context(
    tokens: Mapping[str, Any], memories: Sequence[Any], cut: Sequence[Mapping[str, Any]], degraded: Sequence[str]
) -> None:
    """One context call, by the account that it answers: total, budget and tokens by section, memories used, what was cut."""
    total, budget = tokens["total"], tokens["budget"]
    RECALLED.observe(len(memories))
    MEMORY_TOKENS.observe(tokens["by_section"].get("memories", 0))
    CONTEXT_TOKENS.observe(total)
    if budget:
        BUDGET_SHARE.observe(total / budget)
    for section in {one["section"] for one in cut}:
        CUT.labels(section).inc()
    count_degraded(degraded)
