"""What the Grafana dashboard shows: rows of panels, each with its queries. `RATE` stands for the dashboard's rate interval."""

from dataclasses import dataclass
from typing import Literal

RATE = "$__rate_interval"
Unit = Literal["reqps", "s", "short", "percentunit", "bytes", "cps", "none"]


@dataclass(frozen=True, slots=True)
class Query:
    expr: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    unit: Unit
    queries: tuple[Query, ...]
    about: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    panels: tuple[Panel, ...]


def _rate(series: str, only: str = "") -> str:
    """`only`: a matcher of labels."""
    matcher = f"{{{only}}}" if only else ""
    return f"rate({series}{matcher}[{RATE}])"


def _by(label: str, series: str) -> Query:
    return Query(f"sum by ({label}) ({_rate(series)})", f"{{{{{label}}}}}")


def _quantiles(series: str, *wanted: float, by: str = "", only: str = "") -> tuple[Query, ...]:
    """Of a histogram. Where nothing happened there is nothing to say: no point, not zero."""
    labels = f"le, {by}" if by else "le"
    legend = f" {{{{{by}}}}}" if by else ""
    return tuple(
        Query(f"histogram_quantile({q:g}, sum by ({labels}) ({_rate(series, only)}))", f"p{q * 100:g}{legend}")
        for q in wanted
    )


def _mean(series: str, by: str = "") -> Query:
    sums = f"sum by ({by}) " if by else "sum"
    return Query(
        f"{sums}({_rate(series + '_sum')}) / {sums}({_rate(series + '_count')})",
        f"{{{{{by}}}}}" if by else "mean",
    )


def _one(expr: str, legend: str) -> tuple[Query, ...]:
    return (Query(expr, legend),)


HTTP = 'proxy=~"http-.*"'
FAILED = _rate("strata_http_requests_total", 'status="5xx"')
ALL = _rate("strata_http_requests_total")
TENANTS = _rate("strata_http_requests_total", 'tenant!="-"')
WITHOUT = _rate("strata_context_memories_bucket", 'le="0.0"')
HITS = _rate("strata_cache_lookups_total", 'result="hit"')
ANSWERS = _rate("haproxy_backend_http_responses_total", HTTP)
AGAIN = _rate("haproxy_backend_retry_warnings_total", HTTP)
DEVICES = 'sum(strata_replica_up{deployment=~"Embedder|Strata"})'

REQUESTS = Row(
    "Requests",
    (
        Panel("Requests", "reqps", (_by("route", "strata_http_requests_total"),)),
        Panel(
            "Failed (5xx)",
            "percentunit",
            _one(f"(sum({FAILED}) or vector(0)) / sum({ALL})", "of all"),
            "Refusals (4xx) are not failures.",
        ),
        Panel(
            "Context: latency",
            "s",
            _quantiles("strata_http_request_seconds_bucket", 0.5, 0.95, 0.99, only='route="/v1/context"'),
        ),
        Panel("Latency by route", "s", _quantiles("strata_http_request_seconds_bucket", 0.95, by="route")),
        Panel("In flight", "short", _one("sum(strata_http_requests_in_flight)", "requests")),
        Panel("By status", "reqps", (_by("status", "strata_http_requests_total"),), "429 and 409 are in 4xx."),
        Panel(
            "Busiest tenants",
            "reqps",
            _one(f"topk(10, sum by (tenant) ({TENANTS}))", "{{tenant}}"),
        ),
        Panel(
            "Work after the response, dropped",
            "cps",
            _one(f"sum({_rate('strata_background_dropped_total')})", "dropped"),
        ),
    ),
)
MODELS = Row(
    "Models",
    (
        Panel("Tokens that wait", "short", _one("sum by (model) (strata_queue_tokens)", "{{model}}")),
        Panel("Texts that wait", "short", _one("sum by (model) (strata_queue_items)", "{{model}}")),
        Panel("Wait for the device", "s", _quantiles("strata_queue_wait_seconds_bucket", 0.5, 0.95, by="model")),
        Panel("Not run", "cps", (_by("reason", "strata_queue_refused_total"),), "Overloaded, expired or cancelled."),
        Panel("Tokens per second", "cps", (_by("model", "strata_batch_tokens_sum"),)),
        Panel("Texts in a run", "short", (_mean("strata_batch_items", "model"),)),
        Panel("Time of a run", "s", _quantiles("strata_batch_seconds_bucket", 0.95, by="model")),
        Panel(
            "Device busy",
            "percentunit",
            _one(
                f"sum by (model) ({_rate('strata_batch_seconds_sum')}) / on () group_left () {DEVICES}",
                "{{model}}",
            ),
            "Part of the time that the devices work, over the replicas of the embedding model.",
        ),
        Panel("Call to another deployment", "s", _quantiles("strata_handle_seconds_bucket", 0.95, by="deployment")),
        Panel("Calls made once more", "cps", (_by("deployment", "strata_handle_retries_total"),), "A replica died."),
    ),
)
QUALITY = Row(
    "Memory",
    (
        Panel(
            "Contexts that use memories",
            "percentunit",
            _one(f"1 - sum({WITHOUT}) / sum({_rate('strata_context_memories_count')})", "of all"),
        ),
        Panel("Memories in a prompt", "short", (_mean("strata_context_memories"),)),
        Panel("Entries that a recall looked at", "short", _quantiles("strata_recall_candidates_bucket", 0.5, 0.95)),
        Panel("Tokens of memories", "short", _quantiles("strata_context_memory_tokens_bucket", 0.5, 0.95)),
        Panel("Tokens of a prompt", "short", _quantiles("strata_context_tokens_bucket", 0.5, 0.95)),
        Panel("Part of the budget", "percentunit", _quantiles("strata_context_budget_share_bucket", 0.5, 0.95)),
        Panel("Cut", "cps", (_by("section", "strata_context_cut_total"),)),
        Panel("Had to do without", "cps", (_by("part", "strata_degraded_total"),)),
        Panel("Verdicts", "cps", (_by("decision", "strata_gate_verdicts_total"),)),
        Panel("Why", "cps", _one(f"topk(12, sum by (reason) ({_rate('strata_gate_verdicts_total')}))", "{{reason}}")),
    ),
)
STORES = Row(
    "Stores",
    (
        Panel("Latency", "s", _quantiles("strata_store_seconds_bucket", 0.95, by="store")),
        Panel("Calls", "cps", (_by("store", "strata_store_seconds_count"),)),
        Panel(
            "Slowest calls",
            "s",
            _one(
                f"topk(10, sum by (store, method) ({_rate('strata_store_seconds_sum')})"
                f" / (sum by (store, method) ({_rate('strata_store_seconds_count')}) > 0))",
                "{{store}}.{{method}}",
            ),
        ),
        Panel(
            "Failures",
            "cps",
            _one(f"sum by (store, kind) ({_rate('strata_store_errors_total')})", "{{store}}: {{kind}}"),
        ),
        Panel(
            "Caches: known",
            "percentunit",
            _one(
                f"sum by (cache) ({HITS}) / (sum by (cache) ({_rate('strata_cache_lookups_total')}) > 0)",
                "{{cache}}",
            ),
            "`idempotency`: requests that were answered again from what they had been answered.",
        ),
        Panel("Index backlog", "short", _one("max(strata_index_backlog)", "entries")),
        Panel("Index backlog: oldest", "s", _one("max(strata_index_backlog_age_seconds)", "age")),
        Panel("Mended by the sweeper", "cps", (_by("what", "strata_index_healed_total"),)),
        Panel(
            "Erasures",
            "short",
            (
                Query("max(strata_erasures_pending)", "pending"),
                Query(f"sum(increase(strata_erasures_completed_total[{RATE}]))", "completed"),
            ),
        ),
    ),
)
PROCESSES = Row(
    "Processes",
    (
        Panel("Replicas", "short", _one("sum by (deployment) (strata_replica_up)", "{{deployment}}")),
        Panel("CPU", "short", (_by("deployment", "strata_process_cpu_seconds_total"),), "Cores."),
        Panel("Memory", "bytes", _one("sum by (deployment) (strata_process_resident_bytes)", "{{deployment}}")),
        Panel("Version", "short", _one("count by (version) (strata_build_info)", "{{version}}")),
        Panel("Spans", "cps", (_by("result", "strata_trace_spans_total"),)),
        Panel(
            "Serve: replicas wanted and healthy",
            "short",
            (
                Query("sum by (deployment) (ray_serve_autoscaling_target_replicas)", "{{deployment}} wanted"),
                Query("sum by (deployment) (ray_serve_deployment_replica_healthy)", "{{deployment}} healthy"),
            ),
        ),
        Panel(
            "Serve: requests at replicas",
            "short",
            _one("sum by (deployment) (ray_serve_replica_processing_queries)", "{{deployment}}"),
        ),
        Panel(
            "Serve: delay of the event loops (ms)",
            "short",
            _quantiles("ray_serve_event_loop_scheduling_latency_ms_bucket", 0.95, by="deployment"),
            "A loop that comes round late is busy with something that should be elsewhere.",
        ),
        Panel(
            "HAProxy: answers",
            "reqps",
            _one(f"sum by (proxy, code) ({ANSWERS})", "{{proxy}} {{code}}"),
        ),
        Panel(
            "HAProxy: servers",
            "short",
            _one(f"sum by (proxy) (haproxy_backend_active_servers{{{HTTP}}})", "{{proxy}}"),
        ),
        Panel(
            "HAProxy: tried again",
            "cps",
            _one(f"sum by (proxy) ({AGAIN})", "{{proxy}}"),
        ),
    ),
)

ROWS = (REQUESTS, MODELS, QUALITY, STORES, PROCESSES)
