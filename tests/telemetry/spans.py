"""Exporters of spans for tests: into this process, or into a file for each process."""

import os
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

FOLDER = "STRATA_TEST_SPANS"

collected: list[InMemorySpanExporter] = []


def in_memory() -> SpanExporter:
    collected.append(InMemorySpanExporter())
    return collected[-1]


class _Lines(SpanExporter):
    def __init__(self, path: Path) -> None:
        self._path = path

    def export(self, spans: "tuple[ReadableSpan, ...] | list[ReadableSpan]") -> SpanExportResult:  # type: ignore[override]
        with self._path.open("a", encoding="utf-8") as file:
            file.write("".join(span.to_json(indent=None) + "\n" for span in spans))
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None: ...


def in_files() -> SpanExporter:
    return _Lines(Path(os.environ[FOLDER]) / f"{os.getpid()}.jsonl")


def broken() -> SpanExporter:
    class Broken(SpanExporter):
        def export(self, spans: object) -> SpanExportResult:  # type: ignore[override]
            raise RuntimeError("the collector's own words")

        def shutdown(self) -> None: ...

    return Broken()
