"""Point 6: one trace for a call, with right parents and without a word of anybody's; off, nothing is wrapped."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from prometheus_client import REGISTRY, generate_latest

from deployments.settings import TelemetrySettings
from deployments.telemetry import tracing
from deployments.telemetry.stores import watched
from memory.errors import ConfigError, NotFound, Unavailable
from memory.ids import TenantId
from memory.ticket import Ticket
from tests.telemetry.conftest import Spans

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACE, SPAN = int(CALLER[3:35], 16), int(CALLER[36:52], 16)
CANARY = "zebrafinch"


async def said_and_asked(strata: Any, **headers: str) -> None:
    """A turn that is remembered and a question about it, both with these headers."""
    shop = await strata.tenant("shop")
    talk = await shop.open("ann")
    turns = {"turns": [{"role": "user", "content": f"Remember that I keep a {CANARY}. 我对花生过敏。"}]}
    for path, body in (
        (f"/v1/sessions/{talk.id}/turns", turns),
        (
            "/v1/context",
            {"query": f"What does my {CANARY} eat?", "system": CANARY, "documents": [{"id": "d", "text": CANARY}]},
        ),
        ("/v1/memories/search", {"query": CANARY}),
    ):
        answer = await strata.call("POST", path, talk.token, json=body, headers=headers)
        assert answer.status_code == 200, answer.text
    await strata.services.background.close()


def children_of(span: ReadableSpan, spans: list[ReadableSpan]) -> set[str]:
    return {one.name for one in spans if one.parent and one.parent.span_id == span.context.span_id}


async def test_a_call_is_one_trace_with_its_stores_and_its_model(strata: Any, traced: Spans) -> None:
    await said_and_asked(strata, traceparent=CALLER, **{"X-Request-ID": "req-of-the-caller"})
    spans = [span for span in traced() if span.context.trace_id == TRACE]
    roots = {span.name: span for span in spans if span.parent and span.parent.span_id == SPAN}
    assert set(roots) == {"POST /v1/sessions/{session_id}/turns", "POST /v1/context", "POST /v1/memories/search"}
    context = roots["POST /v1/context"]
    assert context.attributes == {
        "strata.request_id": "req-of-the-caller",
        "strata.tenant": "shop",
        "http.request.method": "POST",
        "http.route": "/v1/context",
        "http.response.status_code": 200,
    }
    inside = children_of(context, spans)
    assert {"sessions.load", "records.recall_rows", "index.search"} <= inside
    assert "rates.hit" not in inside  # counted with the session's read
    assert "rates.hit" in children_of(roots["POST /v1/memories/search"], spans)
    assert {"embedder: queue wait", "embedder: device run"} <= inside
    # what is put on record after the responses is many calls' work, and no one's trace
    assert "records.note_reads" not in {span.name for span in spans}
    for span in spans:
        assert span.start_time <= span.end_time
        assert span.parent is not None


async def test_without_a_caller_every_call_begins_a_trace_and_health_checks_none(strata: Any, traced: Spans) -> None:
    shop = await strata.tenant("shop")
    for path in ("/healthz", "/readyz", "/metrics"):
        assert (await shop.call("GET", path)).status_code == 200
    assert not traced()
    await shop.open("ann")
    await shop.open("ben")
    assert len({span.context.trace_id for span in traced() if span.parent is None}) == 2


@pytest.mark.parametrize("traced", [0.0], indirect=True)
async def test_sampling_is_the_settings_and_the_callers_decision_stands(strata: Any, traced: Spans) -> None:
    await said_and_asked(strata)
    await said_and_asked(strata, traceparent=CALLER[:-2] + "00")
    assert not traced()
    await said_and_asked(strata, traceparent=CALLER)
    assert {span.context.trace_id for span in traced()} == {TRACE}


MALFORMED = ("", "nonsense", "00-" + "0" * 32 + "-00f067aa0ba902b7-01", CALLER[:-3], "x" * 5000, CANARY)


async def test_a_malformed_parent_begins_a_trace_of_ones_own(strata: Any, traced: Spans) -> None:
    shop = await strata.tenant("shop")
    for header in MALFORMED:
        answer = await shop.call("GET", "/v1/memories", params={"user_id": "ann"}, headers={"traceparent": header})
        assert answer.status_code == 200
    roots = [span for span in traced() if span.name == "GET /v1/memories"]
    assert [span.parent for span in roots] == [None] * len(MALFORMED)
    assert len({span.context.trace_id for span in roots}) == len(MALFORMED)


async def test_no_word_of_anybody_is_in_spans_or_metrics(strata: Any, traced: Spans) -> None:
    """The same canary in turns, questions, documents, headers, paths and whatever is refused."""
    await said_and_asked(strata, baggage=f"who={CANARY}", tracestate=f"vendor={CANARY}", traceparent=CALLER)
    shop = await strata.tenant("shop")
    talk = await shop.open("ann")
    refused = (
        ("POST", "/v1/context", {"json": {"query": CANARY, "nonsense": CANARY}}),
        ("POST", f"/v1/{CANARY}", {"json": {CANARY: CANARY}}),
        ("GET", f"/v1/memories/{CANARY}", {}),
        ("GET", "/v1/memories", {"params": {"q": CANARY, "cursor": CANARY}}),
        ("PATCH", f"/v1/memories/{CANARY}", {"json": {"content": CANARY}}),
        (CANARY.upper(), "/v1/memories", {}),
        ("POST", "/v1/memories", {"content": CANARY.encode()}),
    )
    for method, path, options in refused:
        assert (await strata.call(method, path, talk.token, **options)).status_code >= 400
    seen = [span.to_json() for span in traced()]
    assert len(seen) > 20
    assert not [line for line in seen if CANARY in line.lower()]
    assert CANARY not in generate_latest(REGISTRY).decode().lower()


class Store:
    """What a store may do to a caller."""

    size = 3

    async def get(self, scope: str, what: str) -> str:
        raise {"away": Unavailable("records"), "none": NotFound("memory"), "broken": RuntimeError(CANARY)}[what]

    async def many(self, scope: str, ids: list[str]) -> int:
        return len(ids)

    def plain(self) -> int:
        return self.size


def failures(kind: str) -> float:
    return REGISTRY.get_sample_value("strata_store_errors_total", {"store": "records", "kind": kind}) or 0.0


async def test_a_store_is_measured_and_its_failures_are_told_by_kind(traced: Spans) -> None:
    store = watched(Store(), "records")
    before = failures("unavailable"), failures("unforeseen")
    with tracing.request(CALLER, "req-1", "GET"):
        assert (await store.many("scope", ["a", "b"]), store.plain(), store.size) == (2, 3, 3)
        for what, error in (("away", Unavailable), ("none", NotFound), ("broken", RuntimeError)):
            with pytest.raises(error):
                await store.get("scope", what)
    assert failures("unavailable") == before[0] + 1
    assert failures("unforeseen") == before[1] + 1
    spans = {span.attributes.get("error.type", "fine"): span for span in traced() if span.name.startswith("records.")}
    assert set(spans) == {"fine", "unavailable", "not-found", "RuntimeError"}
    assert spans["fine"].attributes["strata.items"] == 2
    assert not any(span.events for span in spans.values())
    assert CANARY not in "".join(span.to_json() for span in spans.values())


async def test_a_handle_call_carries_the_trace_on_its_ticket(traced: Spans) -> None:
    """Context variables do not cross a handle: the other side has the ticket and nothing else."""
    ticket = Ticket(TenantId("shop"), 1.0)
    with tracing.request(CALLER, "req-1", "POST"), tracing.handing(ticket, "embedder.queries", 3) as sent:
        pass
    assert sent.trace is not None and sent.trace.startswith(CALLER[:36])

    async def elsewhere() -> None:
        with tracing.serving(sent, "Embedder.queries", 3):
            tracing.device_run("embedder", 0.25, 0.5)

    await asyncio.create_task(elsewhere())
    spans = {span.name: span for span in traced()}
    client, server = spans["embedder.queries"], spans["Embedder.queries"]
    assert server.parent is not None and server.parent.span_id == client.context.span_id
    assert {span.context.trace_id for span in spans.values()} == {TRACE}
    waited, ran = spans["embedder: queue wait"], spans["embedder: device run"]
    assert waited.parent.span_id == ran.parent.span_id == server.context.span_id
    assert waited.end_time == ran.start_time
    assert (waited.end_time - waited.start_time, ran.end_time - ran.start_time) == (
        pytest.approx(0.25e9, rel=0.01),
        pytest.approx(0.5e9, rel=0.01),
    )


async def test_off_nothing_is_wrapped() -> None:
    ticket = Ticket(TenantId("shop"), 1.0)
    assert not tracing.tracing()
    with tracing.handing(ticket, "embedder.queries", 1) as sent, tracing.serving(sent, "Embedder.queries", 1):
        assert sent is ticket
    assert tracing.current_ids() is None
    method = watched(Store(), "records").many
    assert method.__qualname__.endswith(".plain")


def lost() -> float:
    return REGISTRY.get_sample_value("strata_trace_spans_total", {"result": "failed"}) or 0.0


def test_a_collector_that_fails_costs_spans_and_nothing_else() -> None:
    before = lost()
    tracing.begin(TelemetrySettings(exporter="tests.telemetry.spans:broken", sampling=1.0), "Test", "0")
    try:
        with tracing.request(CALLER, "req-1", "GET"):
            pass
        tracing.flush()
    finally:
        tracing.end()
    assert lost() == before + 1


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        ({"traces": "collector:4318"}, "telemetry.traces"),
        ({"traces": "env:STRATA_NO_SUCH_VARIABLE"}, "STRATA_NO_SUCH_VARIABLE"),
        ({"exporter": "no.such.module:make"}, "telemetry.exporter"),
        ({"exporter": "tests.telemetry.spans:nothing"}, "telemetry.exporter"),
        ({"exporter": "tests.telemetry.spans"}, "telemetry.exporter"),
    ],
)
def test_settings_that_cannot_be_used_are_named(settings: dict[str, str], setting: str) -> None:
    with pytest.raises(ConfigError, match=setting):
        tracing.begin(TelemetrySettings(**settings), "Test", "0")
    assert not tracing.tracing()


def test_spans_go_out_by_otlp(tmp_path: Path) -> None:
    """To a collector's HTTP endpoint, at the path that the protocol names."""
    import threading
    from http.server import BaseHTTPRequestHandler, HTTPServer

    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    got: list[tuple[str, ExportTraceServiceRequest]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, ExportTraceServiceRequest.FromString(body)))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    tracing.begin(TelemetrySettings(traces=f"http://127.0.0.1:{server.server_port}", sampling=1.0), "Test", "0")
    try:
        with tracing.request(CALLER, "req-1", "GET"):
            pass
    finally:
        tracing.end()
        server.shutdown()
        server.server_close()
    (path, sent), *_ = got
    assert path == "/v1/traces"
    (span,) = sent.resource_spans[0].scope_spans[0].spans
    assert span.trace_id.hex() == CALLER[3:35]
