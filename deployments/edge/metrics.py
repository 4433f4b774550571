"""Rate, errors and duration of HTTP calls. Labels are bounded: route templates, known methods, status classes, a first few hundred
tenants (tenants are declared, not invented by callers)."""

import os

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

MAX_TENANTS = 500
METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

REQUESTS = Counter("strata_http_requests", "HTTP requests answered.", ["route", "method", "status", "tenant"])
SECONDS = Histogram(
    "strata_http_request_seconds",
    "Time to answer an HTTP request.",
    ["route", "method"],
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30),
)

_tenants: set[str] = set()


def _bounded(tenant: str) -> str:
    if tenant in _tenants:
        return tenant
    if len(_tenants) >= MAX_TENANTS:
        return "other"
    _tenants.add(tenant)
    return tenant


def observe(route: str, method: str, status: int, tenant: str, seconds: float) -> None:
    method = method if method in METHODS else "other"
    REQUESTS.labels(route, method, f"{status // 100}xx", _bounded(tenant)).inc()
    SECONDS.labels(route, method).observe(seconds)


def exposition() -> bytes:
    """The Prometheus text. With PROMETHEUS_MULTIPROC_DIR set (before the replicas start), of every process on the machine that
    writes there; otherwise of this replica alone."""
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
    return generate_latest(REGISTRY)
