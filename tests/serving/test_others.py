"""The other ways to run: everything in one process, and Serve's own proxy in place of HAProxy. The same demo, the same answers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from benchmarks.service import Service
from deployments.ray_environment import Transport
from deployments.settings import Topology
from tests.serving.replicas import processes, replicas

pytestmark = [pytest.mark.serve, pytest.mark.model, pytest.mark.timeout(420)]


@contextmanager
def running(topology: Topology, transport: Transport) -> Iterator[Service]:
    with Service(topology=topology, transport=transport) as service:
        yield service


def demo(service: Service) -> None:
    played = service.strata("demo", "--url", service.url)
    output = played.communicate(timeout=240)[0]
    assert played.returncode == 0, output[-3000:]
    answer: Any = httpx.get(f"{service.url}/readyz", timeout=60, trust_env=False).json()
    assert set(answer["stores"].values()) == {"ok"}


def proxies(service: Service) -> list[str]:
    return [command for command in processes(service).values() if "/haproxy" in command.split(" ")[0]]


def test_one_process_holds_everything_and_the_demo_passes(encoder: object) -> None:
    with running("fused", "haproxy") as service:
        demo(service)
        assert proxies(service)
        assert len(replicas(service, r"\w+")) == 1


def test_without_haproxy_and_throughput_mode_the_demo_passes(encoder: object) -> None:
    with running("split", "python") as service:
        demo(service)
        assert not proxies(service)
        assert len(replicas(service, r"\w+")) == 4
