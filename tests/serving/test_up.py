"""The real thing: `strata up` starts Serve with its three applications, the demo passes, Ctrl-C ends all of it."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from models.settings import strata_home

pytestmark = [pytest.mark.serve, pytest.mark.model, pytest.mark.timeout(420)]

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Running:
    def __init__(self, folder: Path, port: int) -> None:
        self.home, self.url = folder / "h", f"http://127.0.0.1:{port}"
        self.home.mkdir()
        (self.home / "models").symlink_to(strata_home() / "models")
        config = yaml.safe_load((ROOT / "configs" / "local.yaml").read_text("utf-8"))
        config["http_options"]["port"] = port
        config["applications"][1]["args"]["stores"]["tenants_dir"] = str(ROOT / "configs" / "tenants")
        self.config = folder / "configs" / "test.yaml"
        self.config.parent.mkdir()
        self.config.write_text(yaml.safe_dump(config), "utf-8")
        self.environment = {**os.environ, "STRATA_HOME": str(self.home), "PYTHONPATH": str(ROOT)}
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self.process = self.strata("up", "--config", str(self.config))

    def strata(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [str(BIN / "strata"), *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def wait_ready(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.process.poll() is None:
            try:
                if httpx.post(f"{self.url}/v1/context", json={}, trust_env=False).status_code == 401:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.3)
        self.process.kill()
        pytest.fail(f"not ready: {self.process.communicate()[0][-3000:]}")


@pytest.fixture(scope="module")
def running(encoder: object) -> Iterator[Running]:  # the encoder fixture: the model is prepared
    with tempfile.TemporaryDirectory(prefix="st-") as folder:
        started = Running(Path(folder), free_port())
        try:
            started.wait_ready(240)
            yield started
        finally:
            if started.process.poll() is None:
                started.process.kill()
            subprocess.run([str(BIN / "strata"), "down"], env=started.environment, timeout=60, check=False)


def test_the_demo_passes_and_ctrl_c_ends_everything(running: Running) -> None:
    demo = running.strata("demo", "--url", running.url)
    output = demo.communicate(timeout=120)[0]
    assert demo.returncode == 0, output[-3000:]

    status = running.strata("status", "--url", running.url)
    assert "embedder" in status.communicate(timeout=60)[0]
    assert status.returncode == 0

    second = running.strata("up", "--config", str(running.config))
    said = second.communicate(timeout=60)[0]
    assert second.returncode == 1
    assert "is taken" in said

    running.process.send_signal(signal.SIGINT)
    running.process.communicate(timeout=60)
    assert running.process.returncode == 0
    assert leftovers(running) == []


def leftovers(running: Running) -> list[str]:
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
