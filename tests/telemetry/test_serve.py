"""Over real Serve, HAProxy and a real Prometheus, started once: one trace from every process, every query answered, no word anywhere."""

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.service import BIN, Service
from deployments.telemetry import dashboards
from deployments.telemetry.alerts import ALERTS
from deployments.telemetry.panels import RATE, ROWS
from tests.servers import Prometheus
from tests.servers.packages import Missing, program
from tests.telemetry import spans

pytestmark = [pytest.mark.serve, pytest.mark.model, pytest.mark.timeout(600)]

CANARY = "zebrafinch"
CALLER = "00-{trace:032x}-00f067aa0ba902b7-01"
PARENT = "0x00f067aa0ba902b7"
LONGEST_S = 120.0
"""For what takes seconds on a machine with nothing else to do."""


@dataclass
class Watched:
    service: Service
    prometheus: Prometheus
    ray: Path
    spans: Path

    def call(self, method: str, path: str, credential: str, **options: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {credential}", **options.pop("headers", {})}
        return httpx.request(method, self.service.url + path, headers=headers, timeout=60, trust_env=False, **options)

    def talk(self, trace: int) -> None:
        """A short conversation of somebody new: turns, an import twice under one key, a context, a search, all in one trace."""
        opened = self.call("POST", "/v1/sessions", self.service.key, json={"user_id": f"user-{trace}"})
        assert opened.status_code == 201, opened.text
        session, token = opened.json()["session_id"], opened.json()["token"]
        headers = {"traceparent": CALLER.format(trace=trace)}
        turns = {"turns": [{"role": "user", "content": f"Remember that my {CANARY} is called Pip. 我对花生过敏。"}]}
        entry = {"content": f"I feed the {CANARY} at seven."}
        for path, body, more in (
            (f"/v1/sessions/{session}/turns", turns, {}),
            ("/v1/memories", entry, {"Idempotency-Key": f"once-{trace}"}),
            ("/v1/memories", entry, {"Idempotency-Key": f"once-{trace}"}),
            ("/v1/context", {"query": f"What is my {CANARY} called?"}, {}),
            ("/v1/memories/search", {"query": CANARY}, {}),
        ):
            answer = self.call("POST", path, token, json=body, headers={**headers, **more})
            assert answer.status_code == 200, answer.text

    def ended(self, trace: int) -> list[dict[str, Any]]:
        """The spans of one trace that were sent so far, from every process."""
        lines = [line for path in self.spans.glob("*.jsonl") for line in path.read_text("utf-8").splitlines()]
        wanted = f"0x{trace:032x}"
        return [span for span in map(json.loads, lines) if span["context"]["trace_id"] == wanted]


def ray_targets(ray: Path) -> list[str]:
    """Where Ray's own metrics are, as it tells Prometheus."""
    path = ray / "ray" / "prom_metrics_service_discovery.json"
    return [target for group in json.loads(path.read_text()) for target in group["targets"]] if path.exists() else []


def until(found: Callable[[], Any], meanwhile: Callable[[], None] = lambda: None) -> Any:
    """What `found` answers once that is true of it, or at the deadline."""
    deadline = time.monotonic() + LONGEST_S
    while not (answer := found()) and time.monotonic() < deadline:
        meanwhile()
        time.sleep(0.5)
    return answer


@contextmanager
def started(make: Callable[[], Service]) -> Iterator[Service]:
    """Ray gives itself half a minute to start, which a loaded machine may not keep: then once more."""
    service = make()
    try:
        service.__enter__()
    except RuntimeError:
        service = make()
        service.__enter__()
    with closing(service):
        yield service


@pytest.fixture(scope="module")
def watched(encoder: object) -> Iterator[Watched]:
    try:
        program("prometheus")
    except Missing as missing:
        pytest.skip(str(missing))
    ray, folder = Path(tempfile.mkdtemp(prefix="st-")), Path(tempfile.mkdtemp(prefix="st-"))

    def traced(config: dict[str, Any]) -> None:
        for application in config["applications"]:
            application["args"]["telemetry"] = {"exporter": "tests.telemetry.spans:in_files", "sampling": 0.0}

    environment = {spans.FOLDER: str(folder), "RAY_TMPDIR": str(ray), "RAY_metrics_report_interval_ms": "1000"}
    try:
        with started(lambda: Service(edit=traced, environment=environment)) as service:
            jobs = {
                "strata": [service.url.removeprefix("http://")],
                "haproxy": [f"127.0.0.1:{service.environment['RAY_SERVE_HAPROXY_METRICS_PORT']}"],
                "ray": until(lambda: ray_targets(ray)),
            }
            with Prometheus(jobs, rules=str(dashboards.FOLDER / "alerts.yaml")) as prometheus:
                yield Watched(service, prometheus, ray, folder)
    finally:
        shutil.rmtree(ray, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)


def test_one_trace_over_haproxy_replicas_handles_and_stores(watched: Watched) -> None:
    """Point 6. Sampling is 0: what the caller decided to keep is kept by every process."""
    watched.talk(trace=7)
    wanted = {"MemoryApi", "ContextAssembler", "Embedder"}

    def complete() -> list[dict[str, Any]]:
        found = watched.ended(7)
        seen = {span["resource"]["attributes"]["strata.deployment"] for span in found}
        roots = [span for span in found if span["parent_id"] == PARENT]
        return found if seen >= wanted and len(roots) == 5 else []

    found = until(complete)
    assert found, watched.ended(7)
    by_id = {span["context"]["span_id"]: span for span in found}
    orphans = [span["name"] for span in found if span["parent_id"] not in by_id and span["parent_id"] != PARENT]
    assert not orphans
    roots = [span["name"] for span in found if span["parent_id"] == PARENT]
    assert sorted(roots) == [
        "POST /v1/context",
        "POST /v1/memories",
        "POST /v1/memories",
        "POST /v1/memories/search",
        "POST /v1/sessions/{session_id}/turns",
    ]

    def path(span: dict[str, Any]) -> list[str]:
        names = [f"{span['resource']['attributes']['strata.deployment']}: {span['name']}"]
        return names + (path(by_id[span["parent_id"]]) if span["parent_id"] in by_id else [])

    paths = [path(span) for span in found]
    assert [
        "Embedder: embedder: device run",
        "Embedder: Embedder.queries",
        "ContextAssembler: embedder.queries",
        "ContextAssembler: POST /v1/context",
    ] in paths
    for store in ("sessions.load", "index.search", "records.recall_rows"):
        assert [f"ContextAssembler: {store}", "ContextAssembler: POST /v1/context"] in paths
    assert ["MemoryApi: records.write", "MemoryApi: POST /v1/sessions/{session_id}/turns"] in paths
    (context,) = [span for span in found if span["name"] == "POST /v1/context"]
    assert context["attributes"]["strata.tenant"] == "demo"
    assert re.fullmatch(r"[\w.-]{8,128}", context["attributes"]["strata.request_id"])


def test_every_query_of_dashboard_and_alerts_is_answered(watched: Watched) -> None:
    """None unknown, none empty after a short load; and Prometheus evaluates every rule without an error."""
    shown = [query.expr.replace(RATE, "30s") for row in ROWS for panel in row.panels for query in panel.queries]
    queries = dict.fromkeys([*shown, *(alert.value for alert in ALERTS)])
    traces = iter(range(1000, 100_000))
    empty: list[str] = list(queries)

    def all_answered() -> bool:
        empty[:] = [expr for expr in empty if not watched.prometheus.query(expr)]
        return not empty

    until(all_answered, meanwhile=lambda: watched.talk(next(traces)))
    known = watched.prometheus.names()
    named = {name for expr in queries for name in re.findall(r"\b(?:strata|ray|haproxy)_[a-z_]+", expr)}
    assert not named - known
    assert not empty
    (group,) = watched.prometheus.get("rules")["groups"]
    assert {rule["name"] for rule in group["rules"]} == {alert.name for alert in ALERTS}
    assert {rule["health"] for rule in group["rules"]} == {"ok"}, [rule.get("lastError") for rule in group["rules"]]
    assert watched.prometheus.query('sum(strata_replica_up{deployment="MemoryApi"})')[0]["value"][1] == "1"


def test_status_shows_all_of_it(watched: Watched) -> None:
    watched.talk(trace=8)
    command = watched.service.strata("status", "--once", "--url", watched.service.url)
    said = command.communicate(timeout=120)[0]
    assert command.returncode == 0, said
    for word in (
        "alive",
        "ContextAssembler",
        "Embedder",
        "Curator",
        "/v1/context",
        "sessions",
        "records",
        "index",
        "Backlog",
    ):
        assert word in said


def test_status_goes_on_looking_until_ctrl_c(watched: Watched) -> None:
    """On a terminal."""
    ours, theirs = pty.openpty()
    command = subprocess.Popen(
        [str(BIN / "strata"), "status", "--interval", "0.2", "--url", watched.service.url],
        env={**watched.service.environment, "TERM": "xterm", "COLUMNS": "160", "LINES": "60"},
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    try:
        deadline = time.monotonic() + LONGEST_S
        while seen.count(b"Backlog") < 3 and time.monotonic() < deadline:
            if select.select([ours], [], [], 1.0)[0]:
                seen += os.read(ours, 65536)
        assert seen.count(b"Backlog") >= 3, seen[-2000:]
        command.send_signal(signal.SIGINT)
        assert command.wait(60) == 0
    finally:
        command.kill()
        os.close(ours)


def test_lines_are_json_and_found_by_their_trace(watched: Watched) -> None:
    watched.talk(trace=9)
    path = watched.service.home / "logs" / "strata.jsonl"

    def lines() -> list[dict[str, Any]]:
        return [line for line in map(json.loads, path.read_text().splitlines()) if line.get("trace_id") == f"{9:032x}"]

    found = until(lines)
    assert {line["deployment"] for line in found if line["event"] == "request"} == {"MemoryApi", "ContextAssembler"}
    assert all(line["tenant"] == "demo" and line["request_id"] for line in found)


def test_no_word_that_was_said_is_in_any_log_span_or_metric(watched: Watched) -> None:
    """Ours, Serve's and Ray's, also of calls that were refused."""
    watched.talk(trace=10)
    for path, body in (("/v1/context", {"query": CANARY, CANARY: 1}), (f"/v1/{CANARY}", {})):
        assert watched.call("POST", path, watched.service.key, json=body).status_code >= 400
    until(lambda: watched.ended(10))
    places = [watched.ray / "ray", watched.service.home / "logs", watched.spans]
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert not [path for path in files if CANARY.encode() in path.read_bytes()]
    assert CANARY not in httpx.get(f"{watched.service.url}/metrics", timeout=60, trust_env=False).text
