"""The real thing: `strata up` starts Serve with its three applications, the demo passes, Ctrl-C ends all of it."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from benchmarks.service import Service
from storage.sessions import valkey_server

pytestmark = [pytest.mark.serve, pytest.mark.model, pytest.mark.timeout(420)]


@pytest.fixture(scope="module")
def running(encoder: object) -> Iterator[Service]:  # the encoder fixture: the model is prepared
    with Service() as service:
        yield service


def test_the_demo_passes_and_ctrl_c_ends_everything(running: Service) -> None:
    demo = running.strata("demo", "--url", running.url)
    output = demo.communicate(timeout=120)[0]
    assert demo.returncode == 0, output[-3000:]

    status = running.strata("status", "--url", running.url)
    assert "embedder" in status.communicate(timeout=60)[0]
    assert status.returncode == 0

    assert valkey_server.stop(running.home)  # as if it had been killed: it is missed, and started again
    until = time.monotonic() + 90
    while "ok" not in stores(running).get("sessions", "") or valkey_server.running(running.home) is None:
        assert time.monotonic() < until
        time.sleep(0.2)

    second = running.strata("up", "--config", str(running.config))
    said = second.communicate(timeout=60)[0]
    assert second.returncode == 1
    assert "is taken" in said

    running.process.send_signal(signal.SIGINT)
    running.process.communicate(timeout=60)
    assert running.process.returncode == 0
    assert leftovers(running) == []


def stores(running: Service) -> dict[str, str]:
    with contextlib.suppress(httpx.HTTPError):
        return dict(httpx.get(f"{running.url}/readyz", timeout=10, trust_env=False).json()["stores"])
    return {}


def leftovers(running: Service) -> list[str]:
    """Processes that still have this home in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if f"STRATA_HOME={running.home}".encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200])
        except OSError:
            continue
    return found
