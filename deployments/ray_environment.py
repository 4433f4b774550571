"""What Ray, Serve and HAProxy are told by the environment, on every node and before Ray starts there. Written once: `strata up` and
the Kubernetes manifests both take it from here."""

from typing import Literal

Transport = Literal["haproxy", "python"]

RAY_ENVIRONMENT = {
    "RAY_SERVE_ENABLE_HA_PROXY": "1",  # about 1 ms of CPU a request instead of 8
    "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",  # handles over gRPC, user code on the replica's own loop: half the cost of a call
    "RAY_SERVE_HAPROXY_TIMEOUT_SERVER_S": "310",  # for ever otherwise; over the longest deadline that a request may be given
    "RAY_worker_niceness": "0",  # Ray nices workers to 15 by default
    "RAY_USAGE_STATS_ENABLED": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Every node, also in a cluster. Each key may be overridden by the environment that it is started in."""

LOCAL_ENVIRONMENT = {
    "RAY_ADDRESS": "local",  # a stale address would hang the start for two minutes
    "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "1",  # 30 s otherwise, at every stop; in a cluster others must hear of it first
}
"""One machine alone, beside RAY_ENVIRONMENT."""

TRANSPORTS: dict[Transport, dict[str, str]] = {
    "haproxy": {"RAY_SERVE_ENABLE_HA_PROXY": "1", "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1"},
    "python": {"RAY_SERVE_ENABLE_HA_PROXY": "0", "RAY_SERVE_THROUGHPUT_OPTIMIZED": "0"},
}
"""`python` is Serve as it comes: its own proxy and actor calls. Slower; for comparison, and where HAProxy cannot run."""
