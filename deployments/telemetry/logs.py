"""Log lines: one JSON object each, on the standard output of the replica, with the ids by which it is found again. No content.

`strata.access` has one line for each request; everything else speaks when something is wrong.
"""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

import orjson
import structlog

from deployments.edge.facts import CURRENT
from deployments.telemetry.tracing import current_ids

OURS = ("memory", "models", "storage", "deployments", "strata")
"""Roots of the loggers whose lines are ours. Ray's, and other libraries', keep the form that Serve gives them."""
Event = MutableMapping[str, Any]


def configure(deployment: str, out: TextIO | None = None, level: int = logging.INFO) -> None:
    """For a whole process, from its first line on. Lines below `level` are not made."""
    out = out or sys.stdout

    def named(_: Any, __: str, event: Event) -> Event:
        event["deployment"] = deployment
        return event

    processors: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        named,
        add_ids,
    ]
    structlog.configure(
        processors=[*processors, _named_logger, structlog.processors.JSONRenderer(serializer=_json)],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=_Lines(out),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(serializer=_json),
            ],
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *processors, _without_exception],
            use_get_message=True,
        )
    )
    for name in OURS:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(max(level, logging.INFO))


def add_ids(_: Any, __: str, event: Event) -> Event:
    """Which request, whose, and where in which trace; what the line says itself stands."""
    facts = CURRENT.get()
    if facts is not None:
        event.setdefault("request_id", facts.request_id)
        event.setdefault("tenant", facts.tenant_id)
    if (ids := current_ids()) is not None:
        event["trace_id"], event["span_id"] = ids
    return event


def _without_exception(_: Any, __: str, event: Event) -> Event:
    """A library's exception may quote anything; its kind is enough."""
    found = event.pop("exc_info", None)
    if isinstance(found, tuple) and found and found[0] is not None:
        event["kind"] = found[0].__name__
    event.pop("stack_info", None)
    return event


def _named_logger(logger: Any, _: str, event: Event) -> Event:
    if (name := getattr(logger, "name", None)) is not None:
        event["logger"] = name
    return event


def _json(event: Any, **_: Any) -> str:
    return orjson.dumps(event, default=_unknown).decode()


def _unknown(value: Any) -> str:
    """Nothing that JSON cannot say is spelled out: its text may hold anything."""
    return f"<{type(value).__name__}>"


class _Line(structlog.PrintLogger):
    """Prints, and knows by which name it was asked for."""

    def __init__(self, out: TextIO, name: str | None) -> None:
        super().__init__(out)
        self.name = name


class _Lines:
    def __init__(self, out: TextIO) -> None:
        self._out = out

    def __call__(self, *names: Any) -> _Line:
        return _Line(self._out, names[0] if names else None)
