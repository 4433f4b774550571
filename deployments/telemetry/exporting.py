"""Where spans go: to a collector by OTLP/HTTP, or wherever a function of one's own says. In batches, off the path, within bounds."""

import importlib
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from deployments.references import dereferenced
from deployments.settings import TelemetrySettings
from deployments.telemetry.metrics import SPANS
from memory.errors import ConfigError
from models.settings import strata_home

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

QUEUE_SPANS, BATCH_SPANS = 4096, 512
"""What comes on top of a full queue is lost: a collector that is away costs spans, never memory or time."""
EVERY_S, TIMEOUT_S = 2.0, 5.0
OTLP_PATH = "/v1/traces"


class Counting:
    """A SpanExporter that counts what another one could and could not pass on. It never raises."""

    def __init__(self, exporter: "SpanExporter") -> None:
        self._exporter = exporter
        self._exported, self._failed = SPANS.labels("exported"), SPANS.labels("failed")

    def export(self, spans: "Sequence[ReadableSpan]") -> "SpanExportResult":
        from opentelemetry.sdk.trace.export import SpanExportResult

        try:
            result = self._exporter.export(spans)
        except Exception:
            result = SpanExportResult.FAILURE
        (self._exported if result is SpanExportResult.SUCCESS else self._failed).inc(len(spans))
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def span_processor(settings: TelemetrySettings) -> "SpanProcessor":
    """ConfigError where `telemetry` names what cannot be used."""
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # it quotes the server; failures are counted
    exporter: Any = Counting(_made(settings.exporter) if settings.exporter else _otlp(settings.traces or ""))
    return BatchSpanProcessor(
        exporter,
        max_queue_size=QUEUE_SPANS,
        max_export_batch_size=BATCH_SPANS,
        schedule_delay_millis=EVERY_S * 1000,
    )


def _made(name: str) -> "SpanExporter":
    module, _, function = name.partition(":")
    try:
        made: SpanExporter = getattr(importlib.import_module(module), function)()
    except (ImportError, AttributeError, ValueError, TypeError):
        fix = (
            f"`{name}` must be module:function, importable in every replica, that makes a SpanExporter of no arguments"
        )
        raise ConfigError("telemetry.exporter", fix) from None
    return made


def _otlp(traces: str) -> "SpanExporter":
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    url = urlsplit(dereferenced(traces, strata_home()))
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ConfigError("telemetry.traces", "must be the URL of an OTLP/HTTP collector, as http://collector:4318")
    path = url.path.rstrip("/")
    path = path if path.endswith(OTLP_PATH) else path + OTLP_PATH
    return OTLPSpanExporter(endpoint=urlunsplit(url._replace(path=path)), timeout=TIMEOUT_S)
