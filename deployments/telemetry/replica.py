"""What a replica tells of itself from its first moment on: that it lives, what it uses, how it writes its lines, whether it traces."""

import asyncio
import contextlib
import os
import threading
import time
from pathlib import Path

from deployments.settings import TelemetrySettings
from deployments.telemetry import logs, metrics, tracing
from deployments.version import VERSION

EVERY_S = 2.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Telemetry:
    """One for each replica; ended by `aclose`. ConfigError where the settings name what cannot be used."""

    def __init__(self, settings: TelemetrySettings, deployment: str) -> None:
        logs.configure(deployment)
        tracing.begin(settings, deployment, VERSION)
        self._up = metrics.REPLICA_UP.labels(deployment)
        self._cpu, self._resident = metrics.CPU_SECONDS.labels(deployment), metrics.RESIDENT.labels(deployment)
        self._used = 0.0
        self._ended = threading.Event()
        self._up.set(1)
        metrics.BUILD.labels(VERSION).set(1)
        # A thread, not a task: a loop that hangs must not hide what it uses.
        self._thread = threading.Thread(target=self._look, name="telemetry", daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._ended.is_set():
            used = time.process_time()
            self._cpu.inc(max(used - self._used, 0.0))
            self._used = used
            with contextlib.suppress(OSError):
                self._resident.set(resident_bytes())
            self._ended.wait(EVERY_S)

    async def aclose(self) -> None:
        """Waiting spans are sent, within seconds."""
        self._ended.set()
        self._up.set(0)
        self._resident.set(0)
        await asyncio.to_thread(tracing.end)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
