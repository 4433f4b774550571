"""A running Strata's replicas as the operating system sees them: found, killed, stopped; and its configuration deployed anew."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import yaml

from benchmarks.service import Service

PATIENCE_S = 120.0
"""The suite shares two processors with whatever else runs there."""


def eventually(holds: Callable[[], Any], what: str, seconds: float = PATIENCE_S) -> Any:
    """The first true answer of `holds`."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if found := holds():
            return found
        time.sleep(0.2)
    raise AssertionError(f"not within {seconds:g} s: {what}")


def processes(service: Service) -> dict[int, str]:
    """Every process of this service, by its command line."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if f"STRATA_HOME={service.home}".encode() in (entry / "environ").read_bytes():
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
        except OSError:
            continue
    return found


def replicas(service: Service, deployment: str) -> set[int]:
    """Process ids of its replicas, starting ones included. Ray names a process after its actor, and then what it is doing."""
    named = re.compile(rf"ray::ServeReplica:\w+:{deployment}\b")
    return {pid for pid, command in processes(service).items() if named.match(command)}


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


class Stopped:
    """A process that stands still meanwhile: neither dead nor answering."""

    def __init__(self, *pids: int) -> None:
        self._pids = pids

    def __enter__(self) -> None:
        for pid in self._pids:
            os.kill(pid, signal.SIGSTOP)

    def __exit__(self, *_: object) -> None:
        for pid in self._pids:
            os.kill(pid, signal.SIGCONT)


def metric(service: Service, name: str, **labels: str) -> float:
    """A figure of /metrics, added up over what the labels leave open."""
    total = 0.0
    for line in httpx.get(f"{service.url}/metrics", timeout=30, trust_env=False).text.splitlines():
        if re.match(rf"{name}[ {{]", line) and all(f'{key}="{value}"' in line for key, value in labels.items()):
            total += float(line.rpartition(" ")[2])
    return total


def deploy(service: Service, edit: Callable[[Any], object]) -> None:
    """Change the Serve file and hand it to the running Serve, as `serve deploy` does; returns when all of it runs."""
    config = yaml.safe_load(service.config.read_text("utf-8"))
    edit(config)
    service.config.write_text(yaml.safe_dump(config), "utf-8")
    _serve(service, "deploy", str(service.config))
    eventually(lambda: all(app["status"] == "RUNNING" for app in applications(service).values()), "deployed anew")


def applications(service: Service) -> dict[str, Any]:
    """What `serve status` says of each."""
    found: dict[str, Any] = yaml.safe_load(_serve(service, "status"))["applications"]
    return found


def _serve(service: Service, command: str, *arguments: str) -> str:
    log = (service.home / "logs" / "serve.log").read_text("utf-8", "replace")
    dashboard = re.findall(r"View the dashboard at \S*?(http://[\d.]+:\d+)", log)[-1]
    ended = subprocess.run(
        [str(Path(sys.executable).with_name("serve")), command, "-a", dashboard, *arguments],
        env={**service.environment, "RAY_AUTH_MODE": "token"},  # the cluster of `serve run` asks for its token
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    return ended.stdout


def application(config: Any, name: str) -> Any:
    return next(each for each in config["applications"] if each["name"] == name)


def options(config: Any, deployment: str) -> Any:
    """The options of a deployment, to be changed; made where the file says nothing of it."""
    owner = {"Embedder": "inference", "ContextAssembler": "context", "MemoryApi": "memory", "Curator": "memory"}
    listed = application(config, owner[deployment])["deployments"]
    for each in listed:
        if each["name"] == deployment:
            return each
    listed.append({"name": deployment})
    return listed[-1]
