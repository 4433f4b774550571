"""Each alert fires on what it is for, and none on a day like any other: the rules themselves, run by promtool over made-up series."""

import subprocess
from pathlib import Path

import pytest
import yaml

from deployments.telemetry import dashboards
from deployments.telemetry.alerts import ALERTS
from tests.servers.packages import Missing, program

MINUTES = 240
CONTEXT = 'strata_http_request_seconds_bucket{{route="/v1/context",method="POST",le="{le}"}}'
WAIT = 'strata_queue_wait_seconds_bucket{{model="embedder",le="{le}"}}'
STORE = 'strata_store_seconds_bucket{{store="records",method="write",le="{le}"}}'
Series = dict[str, str]
"""Series and their values a minute apart, as promtool writes them: `0+60x240` grows by one a second."""

ORDINARY: Series = {
    'strata_replica_up{deployment="MemoryApi"}': f"2x{MINUTES}",
    'strata_replica_up{deployment="ContextAssembler"}': f"2x{MINUTES}",
    'haproxy_backend_active_servers{proxy="http-memory"}': f"2x{MINUTES}",
    'haproxy_backend_active_servers{proxy="default_backend"}': f"0x{MINUTES}",
    'strata_http_requests_total{status="2xx"}': f"0+600x{MINUTES}",
    'strata_http_requests_total{status="5xx"}': f"0+2x{MINUTES}",
    CONTEXT.format(le="0.05"): f"0+600x{MINUTES}",
    CONTEXT.format(le="2"): f"0+600x{MINUTES}",
    CONTEXT.format(le="+Inf"): f"0+600x{MINUTES}",
    WAIT.format(le="0.1"): f"0+600x{MINUTES}",
    WAIT.format(le="5"): f"0+600x{MINUTES}",
    WAIT.format(le="+Inf"): f"0+600x{MINUTES}",
    'strata_queue_refused_total{model="embedder",reason="overloaded"}': f"5x{MINUTES}",
    'strata_queue_refused_total{model="embedder",reason="cancelled"}': f"0+60x{MINUTES}",
    'strata_degraded_total{part="index"}': f"0+1x{MINUTES}",
    'strata_store_errors_total{store="records",kind="unavailable"}': f"0+1x{MINUTES}",
    'strata_store_seconds_count{store="records",method="write"}': f"0+600x{MINUTES}",
    STORE.format(le="0.01"): f"0+600x{MINUTES}",
    STORE.format(le="2"): f"0+600x{MINUTES}",
    STORE.format(le="+Inf"): f"0+600x{MINUTES}",
    "strata_index_backlog_age_seconds": f"3x{MINUTES}",
    "strata_erasures_pending": f"1x60 0x{MINUTES - 60}",
    'strata_index_healed_total{what="orphan"}': f"4x{MINUTES}",
    'strata_handle_retries_total{deployment="Embedder"}': f"2x{MINUTES}",
    'ray_serve_autoscaling_target_replicas{deployment="Embedder",WorkerId="c"}': f"2x{MINUTES}",
    'ray_serve_deployment_replica_healthy{deployment="Embedder",replica="a"}': f"1x{MINUTES}",
    'ray_serve_deployment_replica_healthy{deployment="Embedder",replica="b"}': f"1x{MINUTES}",
    "strata_background_dropped_total": f"0x{MINUTES}",
    'strata_trace_spans_total{result="failed"}': f"9x{MINUTES}",
    'strata_trace_spans_total{result="exported"}': f"0+900x{MINUTES}",
}

TROUBLE: dict[str, Series] = {
    "StrataDown": {
        'strata_replica_up{deployment="MemoryApi"}': f"0x{MINUTES}",
        'strata_replica_up{deployment="ContextAssembler"}': f"0x{MINUTES}",
    },
    "StrataNoServers": {'haproxy_backend_active_servers{proxy="http-memory"}': f"0x{MINUTES}"},
    "StrataErrors": {'strata_http_requests_total{status="5xx"}': f"0+20x{MINUTES}"},
    "StrataContextSlow": {CONTEXT.format(le="0.05"): f"0+580x{MINUTES}"},
    "StrataQueueSlow": {WAIT.format(le="0.1"): f"0+300x{MINUTES}"},
    "StrataOverloaded": {'strata_queue_refused_total{model="embedder",reason="overloaded"}': f"0+5x{MINUTES}"},
    "StrataDegraded": {'strata_degraded_total{part="index"}': f"0+60x{MINUTES}"},
    "StrataStoreErrors": {'strata_store_errors_total{store="records",kind="unavailable"}': f"0+30x{MINUTES}"},
    "StrataStoreSlow": {STORE.format(le="0.01"): f"0+580x{MINUTES}"},
    "StrataBacklogOld": {"strata_index_backlog_age_seconds": f"0+60x{MINUTES}"},
    "StrataErasuresPending": {"strata_erasures_pending": f"1x{MINUTES}"},
    "StrataIndexMended": {'strata_index_healed_total{what="orphan"}': f"4x{MINUTES - 30} 7x30"},
    "StrataReplicasDie": {'strata_handle_retries_total{deployment="Embedder"}': f"2x{MINUTES - 8} 3x8"},
    "StrataReplicasMissing": {
        'ray_serve_deployment_replica_healthy{deployment="Embedder",replica="b"}': f"0x{MINUTES}"
    },
    "StrataWorkDropped": {"strata_background_dropped_total": f"0+1x{MINUTES}"},
    "StrataSpansLost": {'strata_trace_spans_total{result="failed"}': f"0+90x{MINUTES}"},
}


@pytest.fixture(scope="module")
def promtool() -> str:
    try:
        return program("promtool")
    except Missing as missing:
        pytest.skip(str(missing))


def day(expr: str, series: Series, answer: list[dict[str, object]]) -> dict[str, object]:
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": expr, "eval_time": f"{MINUTES}m", "exp_samples": answer}],
    }


def test_every_alert_has_its_trouble() -> None:
    assert set(TROUBLE) == {alert.name for alert in ALERTS}
    assert all(series.keys() <= ORDINARY.keys() for series in TROUBLE.values())


def test_alerts_fire_on_their_trouble_alone(promtool: str, tmp_path: Path) -> None:
    firing = 'count by (alertname) (ALERTS{alertstate="firing"})'
    days = [day(firing, ORDINARY, [])] + [
        day(firing, ORDINARY | series, [{"labels": f'{{alertname="{name}"}}', "value": 1}])
        for name, series in TROUBLE.items()
    ]
    cases = tmp_path / "cases.yaml"
    rules = [str(dashboards.FOLDER / "alerts.yaml")]
    cases.write_text(yaml.safe_dump({"rule_files": rules, "evaluation_interval": "1m", "tests": days}), "utf-8")
    done = subprocess.run(
        [promtool, "test", "rules", str(cases)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
