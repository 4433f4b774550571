"""The Prometheus text: of every process that counts in the same folder, or of this one alone."""

import contextlib
import struct
import time

from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from deployments.telemetry import processes

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BURY_EVERY_S = 5.0

_buried = 0.0


def exposition() -> bytes:
    """With PROMETHEUS_MULTIPROC_DIR set (before the processes start), of every process on the machine that writes there; otherwise of
    this one. It reads files: not for the event loop."""
    where = processes.folder()
    if where is None or not where.is_dir():
        return generate_latest(REGISTRY)
    _bury_sometimes()
    registry = CollectorRegistry()
    MultiProcessCollector(registry, str(where))  # type: ignore[no-untyped-call]
    with processes.reading(where):
        try:
            return generate_latest(registry)
        except struct.error:  # a process was just making its file
            return generate_latest(registry)


def _bury_sometimes() -> None:
    global _buried
    where = processes.folder()
    now = time.monotonic()
    if where is not None and now - _buried >= BURY_EVERY_S:
        _buried = now
        with contextlib.suppress(OSError):
            processes.bury(where)
