"""One trace for one call: ingress, handle, model, stores. Off, it costs one comparison; nothing is wrapped.

A span says who (tenant, request id), what (route, method, counts) and how long. Never content, never a server's words: an exception
is told by its kind alone. Of the outside only `traceparent` is taken in; baggage and tracestate are anybody's text.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from opentelemetry import context, trace
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, SpanKind, StatusCode, TraceFlags, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from deployments.settings import TelemetrySettings
from memory.errors import StrataError
from memory.ticket import Ticket

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

AttributeValue = str | int | float | bool
FLUSH_S = 3.0

_W3C = TraceContextTextMapPropagator()


@dataclass(frozen=True)
class _Active:
    tracer: Tracer
    provider: "TracerProvider"


_active: _Active | None = None


def begin(settings: TelemetrySettings, deployment: str, version: str) -> None:
    """This process traces from now on, where the settings say so. Again is harmless: the first settings stay. ConfigError."""
    global _active
    if _active is not None or (settings.traces is None and settings.exporter is None):
        return
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

    from deployments.telemetry.exporting import span_processor

    about: dict[str, AttributeValue] = {"service.name": "strata", "service.version": version}
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(settings.sampling)),
        resource=Resource.create({**about, "strata.deployment": deployment}),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(span_processor(settings))
    _active = _Active(provider.get_tracer("strata", version), provider)


def flush() -> None:
    """Send what waits. It blocks: not for the event loop."""
    if _active is not None:
        _active.provider.force_flush(int(FLUSH_S * 1000))


def end() -> None:
    """Send what waits, within a few seconds, and trace no more. It blocks: not for the event loop."""
    global _active
    if (active := _active) is not None:
        _active = None
        active.provider.force_flush(int(FLUSH_S * 1000))
        active.provider.shutdown()


def tracing() -> bool:
    return _active is not None


def current_ids() -> tuple[str, str] | None:
    """Trace and span id of what runs now, in hex; for log lines."""
    if _active is None:
        return None
    found = trace.get_current_span().get_span_context()
    return (f"{found.trace_id:032x}", f"{found.span_id:016x}") if found.is_valid else None


def _kept() -> bool:
    """Whether what runs now is part of a trace that is kept; its span may have ended, where work goes on after a response."""
    found = trace.get_current_span().get_span_context()
    return found.is_valid and found.trace_flags.sampled


def traceparent() -> str | None:
    """What runs now, as W3C writes it; None where there is no trace."""
    found = trace.get_current_span().get_span_context()
    if not found.is_valid:
        return None
    return f"00-{found.trace_id:032x}-{found.span_id:016x}-{int(found.trace_flags):02x}"


def _parent(header: str | None) -> context.Context:
    """Of a span elsewhere; an empty context where there is none, or its header is malformed."""
    if header is None:
        return context.Context()
    found = trace.get_current_span(_W3C.extract({"traceparent": header}, context.Context())).get_span_context()
    if not found.is_valid:
        return context.Context()
    plain = SpanContext(found.trace_id, found.span_id, is_remote=True, trace_flags=TraceFlags(found.trace_flags))
    return trace.set_span_in_context(NonRecordingSpan(plain), context.Context())


@contextlib.contextmanager
def _span(
    name: str, kind: SpanKind, attributes: Mapping[str, AttributeValue], parent: context.Context | None = None
) -> Iterator[Span]:
    assert _active is not None
    with _active.tracer.start_as_current_span(
        name,
        parent,
        kind,
        {f"strata.{key}": value for key, value in attributes.items()},
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except Exception as error:
            if span.is_recording():
                _tell(span, error)
            raise


def _tell(span: Span, error: Exception) -> None:
    kind = error.slug if isinstance(error, StrataError) else type(error).__name__
    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR)


@contextlib.contextmanager
def request(header: str | None, request_id: str, method: str) -> Iterator[Span]:
    """The span of one HTTP request, which goes on where the caller's `traceparent` left off. Where there is `tracing`."""
    with _span(method, SpanKind.SERVER, {"request_id": request_id}, _parent(header)) as span:
        span.set_attribute("http.request.method", method)
        yield span


def answered(span: Span, method: str, route: str, status: int, tenant: str) -> None:
    """What is known of a request only at its end. The path itself is not told: ids of users and sessions stand in it."""
    if span.is_recording():
        span.update_name(f"{method} {route}")
        span.set_attributes({"http.route": route, "http.response.status_code": status, "strata.tenant": tenant})
        if status >= 500:
            span.set_status(StatusCode.ERROR)


@contextlib.contextmanager
def handing(ticket: Ticket, name: str, items: int) -> Iterator[Ticket]:
    """Around a call to another deployment: the ticket to send with it, which carries this span over."""
    if _active is None:
        yield ticket
        return
    if not _kept():  # not kept, or in no trace: the other side is told so
        yield replace(ticket, trace=traceparent())
        return
    with _span(name, SpanKind.CLIENT, {"tenant": ticket.tenant_id, "items": items}):
        yield replace(ticket, trace=traceparent())


@contextlib.contextmanager
def serving(ticket: Ticket, name: str, items: int) -> Iterator[None]:
    """Around what a deployment does for a call that came by handle. A call that is in no trace begins none."""
    if _active is None or ticket.trace is None:
        yield
        return
    with _span(name, SpanKind.SERVER, {"tenant": ticket.tenant_id, "items": items}, _parent(ticket.trace)):
        yield


@contextlib.contextmanager
def store_call(store: str, method: str, items: int | None) -> Iterator[None]:
    """Around a call to a store. What nobody's request asked for (polls, workers) is in no trace, and of a trace that is not kept
    nothing is made."""
    if _active is None or not _kept():
        yield
        return
    about: dict[str, AttributeValue] = {"store": store, "method": method}
    if items is not None:
        about["items"] = items
    with _span(f"{store}.{method}", SpanKind.CLIENT, about):
        yield


def device_run(model: str, waited_s: float, ran_s: float) -> None:
    """Two spans of the work that just ended, under the current one: its time in the queue, and on the device."""
    if _active is None or not _kept():
        return
    ended = time.time_ns()
    ran = ended - int(ran_s * 1e9)
    for name, start, end_at in (("queue wait", ran - int(waited_s * 1e9), ran), ("device run", ran, ended)):
        span = _active.tracer.start_span(f"{model}: {name}", start_time=start)
        span.end(end_at)
