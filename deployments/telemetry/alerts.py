"""When somebody is to be called, and what he does then. Each alert compares one value with one bound."""

from dataclasses import dataclass
from typing import Literal

RUNBOOK = "docs/operations.md"


@dataclass(frozen=True, slots=True)
class Alert:
    """`value`, compared with `bound` for `for_`. `means` and `do` stand in the runbook as they stand here."""

    name: str
    value: str
    compare: Literal[">", "<"]
    bound: float
    for_: str
    severity: Literal["page", "ticket"]
    means: str
    do: str

    @property
    def expr(self) -> str:
        return f"{self.value} {self.compare} {self.bound:g}"

    @property
    def anchor(self) -> str:
        return f"{RUNBOOK}#{self.name}"

    @property
    def line(self) -> str:
        """Of the runbook: a row of its table."""
        return f'| <a id="{self.name}"></a>{self.name} ({self.severity}) | {self.means} | {self.do} |'


def _share(part: str, whole: str, by: str = "") -> str:
    """Of two counters over five minutes; 0 where the part never happened, nothing where the whole did not."""
    sums = f"sum by ({by}) " if by else "sum"
    return f"{sums}(rate({part}[5m])) / {sums}(rate({whole}[5m]))"


def _p(quantile: float, series: str, by: str = "", window: str = "5m") -> str:
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({quantile:g}, sum by ({labels}) (rate({series}[{window}])))"


ALERTS = (
    Alert(
        "StrataDown",
        '(sum(strata_replica_up{deployment=~"ContextAssembler|MemoryApi|Strata"}) or vector(0))',  # `or` binds last
        "<",
        1,
        "1m",
        "page",
        "no replica that answers requests tells of itself",
        "`strata status`, then `serve status`: does Ray run, do replicas start? Their last lines are in STRATA_LOGS",
    ),
    Alert(
        "StrataNoServers",
        'min by (proxy) (haproxy_backend_active_servers{proxy=~"http-.*"})',
        "<",
        1,
        "1m",
        "page",
        "HAProxy has no replica to send requests of this application to",
        "as above; with replicas that live, look at their health checks in Serve's controller log",
    ),
    Alert(
        "StrataErrors",
        '(sum(rate(strata_http_requests_total{status="5xx"}[5m])) or vector(0)) / sum(rate(strata_http_requests_total[5m]))',
        ">",
        0.02,
        "5m",
        "page",
        "more than 2 % of the requests fail",
        "503: a store that nothing goes without is away (`strata doctor`); 500: lines `unhandled` name the place",
    ),
    Alert(
        "StrataContextSlow",
        _p(0.99, 'strata_http_request_seconds_bucket{route="/v1/context"}'),
        ">",
        1,
        "10m",
        "page",
        "one context call in a hundred takes over a second",
        "which part? Panels *Wait for the device*, *Latency* of stores; then a trace. Model: more replicas. Store: its own load",
    ),
    Alert(
        "StrataQueueSlow",
        _p(0.95, "strata_queue_wait_seconds_bucket", by="model"),
        ">",
        2,
        "10m",
        "ticket",
        "texts wait over two seconds for the model's device",
        "is the autoscaler at max_replicas, or without room to place more? An import may run: shares between tenants stay fair",
    ),
    Alert(
        "StrataOverloaded",
        'sum by (model) (rate(strata_queue_refused_total{reason="overloaded"}[5m]))',
        ">",
        0,
        "10m",
        "ticket",
        "a model's queue turns work away; questions go on by keywords (`degraded`)",
        "raise max_replicas or give the model a faster device; a single tenant's import: ask it to slow down",
    ),
    Alert(
        "StrataDegraded",
        "sum by (part) (rate(strata_degraded_total[5m])) / scalar(sum(rate(strata_http_requests_total[5m])))",
        ">",
        0.05,
        "5m",
        "page",
        "answers go out without a part: embedder, index, records or reranker",
        "that part is away or slower than its deadline: `strata doctor`, then the part's own log",
    ),
    Alert(
        "StrataStoreErrors",
        _share("strata_store_errors_total", "strata_store_seconds_count", "store"),
        ">",
        0.01,
        "5m",
        "page",
        "calls to a store fail: it is away, or does not answer in time",
        "`strata doctor` says which and how; section *When a store is away* says what goes on meanwhile",
    ),
    Alert(
        "StrataStoreSlow",
        _p(0.99, 'strata_store_seconds_bucket{store!="index"}', by="store"),
        ">",
        0.5,
        "10m",
        "ticket",
        "one call in a hundred to a store takes over half a second",
        "panel *Slowest calls* names the method; then the server's slow log, its disk, its connections",
    ),
    Alert(
        "StrataBacklogOld",
        "max(strata_index_backlog_age_seconds)",
        ">",
        900,
        "5m",
        "ticket",
        "an entry has waited a quarter of an hour for the index: it is found by its words in SQL at best",
        "lines `curator_items_put_off` name the kind: embedder or index away? Growing while both work: more Curators",
    ),
    Alert(
        "StrataErasuresPending",
        "max(strata_erasures_pending)",
        ">",
        0,
        "2h",
        "page",
        "an erasure is not seen through after two hours; it takes minutes",
        "lines `erasure_put_off`: which store is away? With copies of the index, is a node down? It goes on by itself",
    ),
    Alert(
        "StrataIndexMended",
        "sum by (what) (increase(strata_index_healed_total[1h]))",
        ">",
        0,
        "5m",
        "ticket",
        "index and records had come apart, and were put right",
        "after a restored backup or a frozen worker: expected. Otherwise tell us, with `what`",
    ),
    Alert(
        "StrataReplicasDie",
        "sum by (deployment) (increase(strata_handle_retries_total[15m]))",
        ">",
        0,
        "1m",
        "ticket",
        "calls were made once more, because the replica died under them",
        "out of memory? Panel *Memory*, the node's kernel log; Serve's controller log says when replicas were replaced",
    ),
    Alert(
        "StrataReplicasMissing",
        "sum by (deployment) (ray_serve_autoscaling_target_replicas)"
        " - sum by (deployment) (ray_serve_deployment_replica_healthy)",
        ">",
        0,
        "10m",
        "ticket",
        "Serve wants more replicas than it gets",
        "no room (`ray status`, pending pods), or replicas that do not start: their log",
    ),
    Alert(
        "StrataWorkDropped",
        "sum(increase(strata_background_dropped_total[15m]))",
        ">",
        0,
        "1m",
        "ticket",
        "access counts and read audits are dropped: too many wait for the records",
        "the records are slow or away: as StrataStoreSlow",
    ),
    Alert(
        "StrataSpansLost",
        'sum(rate(strata_trace_spans_total{result="failed"}[5m]))',
        ">",
        0,
        "15m",
        "ticket",
        "the collector does not take spans; requests do not notice",
        "telemetry.traces: is the address right, does the collector answer? Lower telemetry.sampling where it is too much",
    ),
)
