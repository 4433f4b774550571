"""A Strata of one's own, for measuring and testing the real thing: `strata up` in a temporary home on a free port."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import yaml

from deployments.ray_environment import Transport
from deployments.settings import Topology
from models.settings import strata_home

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
FILES: dict[Topology, str] = {"split": "local.yaml", "fused": "fused.yaml"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def haproxy_of_its_own(folder: Path) -> dict[str, str]:
    """Ports and places that no other Strata on this machine has."""
    places = {
        "CONFIG_FILE_LOC": "haproxy.cfg",
        "SOCKET_PATH": "admin.sock",
        "SERVER_STATE_BASE": "",
        "SERVER_STATE_FILE": "server-state",
        "METRICS_SOCKET_PATH": "metrics.sock",
    }
    ports = {"STATS_PORT": free_port(), "METRICS_PORT": free_port()}
    named = {name: str(folder / "haproxy" / place) for name, place in places.items()}
    return {f"RAY_SERVE_HAPROXY_{name}": str(value) for name, value in {**named, **ports}.items()}


class Service:
    """Started when it is made; its home is temporary, the prepared model is shared. Use it as a context, or `close` it.

    `edit` may change the Serve file (a dict as YAML gives it, configs/local.yaml or configs/fused.yaml) before it is written;
    `environment` is added to that of `strata up`.
    """

    def __init__(
        self,
        port: int | None = None,
        *,
        topology: Topology = "split",
        transport: Transport = "haproxy",
        edit: Callable[[dict[str, Any]], None] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="st-")
        folder = Path(self._folder.name)
        port = port or free_port()
        self.home, self.url = folder / "h", f"http://127.0.0.1:{port}"
        self.home.mkdir()
        (self.home / "models").symlink_to(strata_home() / "models")
        config = yaml.safe_load((ROOT / "configs" / FILES[topology]).read_text("utf-8"))
        config["http_options"]["port"] = port
        for application in config["applications"]:
            if stores := application["args"].get("stores"):
                stores["tenants_dir"] = str(ROOT / "configs" / "tenants")
        if edit is not None:
            edit(config)
        self.config = folder / "configs" / "own.yaml"
        self.config.parent.mkdir()
        self.config.write_text(yaml.safe_dump(config), "utf-8")
        self.environment = {
            **os.environ,
            "STRATA_HOME": str(self.home),
            "PYTHONPATH": str(ROOT),
            **haproxy_of_its_own(folder),
            **(environment or {}),
        }
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self.process = self.strata("up", "--config", str(self.config), "--transport", transport)

    def strata(self, *arguments: str) -> "subprocess.Popen[str]":
        """The command line, on this service's home."""
        return subprocess.Popen(
            [str(BIN / "strata"), *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def wait_ready(self, seconds: float = 240.0) -> None:
        """RuntimeError with the end of what it printed where it does not become ready."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.process.poll() is None:
            try:
                if httpx.post(f"{self.url}/v1/context", json={}, trust_env=False).status_code == 401:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.3)
        self.process.kill()
        raise RuntimeError(f"Strata did not start: {self.process.communicate()[0][-3000:]}")

    @property
    def key(self) -> str:
        """The demo tenant's."""
        return (self.home / "secrets" / "demo.key").read_text().strip()

    def close(self) -> None:
        """Ends it and whatever it left."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.strata("down").communicate(timeout=60)
        self._folder.cleanup()

    def __enter__(self) -> "Service":
        try:
            self.wait_ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
