"""The Prometheus text: of every process that counts in the same folder, or of this one alone."""

import contextlib
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry, Metric, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from deployments.telemetry import processes

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BURY_EVERY_S = 5.0

_merge: Any = MultiProcessCollector.merge  # untyped
_buried = 0.0


class _AllProcesses(Collector):
    def __init__(self, where: Path) -> None:
        self._where = where

    def collect(self) -> Iterator[Metric]:
        with processes.reading(self._where) as files:
            try:
                found = list(_merge(files))
            except struct.error:  # a process was just making its file
                time.sleep(0.01)
                found = list(_merge(files))
        yield from found


def exposition() -> bytes:
    """With PROMETHEUS_MULTIPROC_DIR set (before the processes start), of every process of ours that writes there; otherwise of this
    one. It reads files: not for the event loop."""
    where = processes.folder()
    if where is None or not where.is_dir():
        return generate_latest(REGISTRY)
    _bury_sometimes(where)
    registry = CollectorRegistry()
    registry.register(_AllProcesses(where))
    return generate_latest(registry)


def _bury_sometimes(where: Path) -> None:
    global _buried
    now = time.monotonic()
    if now - _buried >= BURY_EVERY_S:
        _buried = now
        with contextlib.suppress(OSError):
            processes.bury(where)
