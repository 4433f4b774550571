"""Log lines: one JSON object each, with the ids by which it is found again. No content.

They go to the file that STRATA_LOGS names (in a container /proc/1/fd/1 is what `kubectl logs` shows), else to the standard output of
the process, which Ray keeps in its session's logs. `strata.access` has one line for each request; everything else speaks when
something is wrong.
"""

import contextlib
import fcntl
import logging
import os
import stat
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, Protocol

import orjson
import structlog

from deployments.edge.facts import CURRENT
from deployments.telemetry.tracing import current_ids

OURS = ("memory", "models", "storage", "deployments", "strata")
"""Roots of the loggers whose lines are ours. Ray's, and other libraries', keep the form that Serve gives them."""
ENVIRONMENT = "STRATA_LOGS"
MOST_BYTES = 64 * 2**20
LOOK_EVERY = 500
"""Lines between two looks at how long a file has become."""
Event = MutableMapping[str, Any]


class Out(Protocol):
    def write(self, text: str, /) -> Any: ...
    def flush(self) -> Any: ...


class LogFile:
    """A file that several processes append to, whole lines at a time. Beyond MOST_BYTES it becomes `.1`, in place of the last one, and
    a new one is begun. What is no regular file is just written to. A disk that is full costs lines, nothing else."""

    def __init__(self, path: Path) -> None:
        self._path, self._lines = path, 0
        self._file = self._opened()

    def write(self, text: str) -> int:
        self._lines += 1
        with contextlib.suppress(OSError):
            if self._lines % LOOK_EVERY == 0:
                self._look()
            os.write(self._file, text.encode())
        return len(text)

    def flush(self) -> None:
        """Every write is whole."""

    def _opened(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)

    def _look(self) -> None:
        mine = os.fstat(self._file)
        if not stat.S_ISREG(mine.st_mode):
            return
        fcntl.flock(self._file, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if mine.st_size >= MOST_BYTES and self._path.stat().st_ino == mine.st_ino:
                self._path.replace(self._path.with_name(self._path.name + ".1"))
        fcntl.flock(self._file, fcntl.LOCK_UN)
        if not self._path.exists() or self._path.stat().st_ino != mine.st_ino:
            old, self._file = self._file, self._opened()
            os.close(old)


def destination() -> Out:
    """The replica's real standard output, not what Serve puts in its place: that is another log, in a form of its own."""
    path = os.environ.get(ENVIRONMENT)
    if path:
        with contextlib.suppress(OSError):
            return LogFile(Path(path))
    return sys.__stdout__ or sys.stdout


def configure(deployment: str, out: Out | None = None, level: int = logging.INFO) -> None:
    """For a whole process, from its first line on. Lines below `level` are not made."""
    out = out or destination()

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
    handler: logging.Handler = logging.StreamHandler(out)
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


class _Line:
    """Writes a line at a time, and knows by which name it was asked for."""

    def __init__(self, out: Out, name: str | None) -> None:
        self._out, self.name = out, name

    def msg(self, message: str) -> None:
        self._out.write(message + "\n")
        self._out.flush()

    debug = info = warning = warn = error = critical = exception = fatal = log = msg


class _Lines:
    def __init__(self, out: Out) -> None:
        self._out = out

    def __call__(self, *names: Any) -> _Line:
        return _Line(self._out, names[0] if names else None)
