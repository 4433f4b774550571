"""All of Strata in this process, with every span kept."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan

from deployments.settings import TelemetrySettings
from deployments.telemetry import tracing
from tests.telemetry import spans

Spans = Callable[[], Sequence[ReadableSpan]]


@pytest.fixture
def traced(request: pytest.FixtureRequest) -> Iterator[Spans]:
    """Tracing is on, of everything unless the test's parameter says how much; calling it gives the spans that have ended."""
    sampling = getattr(request, "param", 1.0)
    tracing.begin(TelemetrySettings(exporter="tests.telemetry.spans:in_memory", sampling=sampling), "Test", "0")
    memory = spans.collected[-1]

    def ended() -> Sequence[ReadableSpan]:
        tracing.flush()
        return memory.get_finished_spans()

    yield ended
    tracing.end()


@pytest.fixture
async def strata(traced: Spans, home: Path, encoder: Any) -> AsyncIterator[Any]:
    """Opened after tracing began, as in a replica."""
    from deployments.in_process import InProcessEmbedder
    from tests.end_to_end.harness import strata as opened

    embedder = InProcessEmbedder(encoder)
    async with opened(home, embedder) as running:
        yield running
    await embedder.close()
