"""Start and stop: `serve run` on a prepared machine, watched until it is ready, stopped with everything that it started."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from deployments.bootstrap import prepare_stores
from deployments.building import PREPARED
from deployments.ray_environment import LOCAL_ENVIRONMENT, RAY_ENVIRONMENT, TRANSPORTS, Transport
from deployments.serve_file import ServeFile, read_serve_file
from memory.errors import ConfigError
from models.prepare import prepare
from storage.sessions import valkey_server

STOP_S = 7.0
"""How long Serve may take to stop by itself; the whole stop stays under 10 s."""

LOOK_S = 2.0
"""How often to look whether the bundled session server is there."""


def run(config: Path, timeout_s: float, console: Console, transport: Transport | None = None) -> int:
    """Exit status. Returns when the service was asked to stop, or ended by itself (1). With no `transport` the environment decides,
    and HAProxy where it says nothing."""
    file = read_serve_file(config)
    url = f"http://{file.host}:{file.port}"
    check_port(file.host, file.port, config)
    prepare_everything(file, console)
    home = file.stores.home
    logs = home / "logs" / "serve.log"
    logs.parent.mkdir(parents=True, exist_ok=True)
    metrics = home / "run" / "metrics"  # what each process counts, for whichever answers /metrics
    shutil.rmtree(metrics, ignore_errors=True)
    metrics.mkdir(parents=True, exist_ok=True)
    stopping = _Signals()
    started = time.monotonic()
    with logs.open("wb") as sink:
        child = subprocess.Popen(  # noqa: S603 - our own interpreter and a checked file
            [str(Path(sys.executable).with_name("serve")), "run", str(config.resolve())],
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches us alone, and we stop it in order
            preexec_fn=_heed_interrupts,
            env=_environment(home, metrics, transport),
            cwd=config.resolve().parents[1],
        )
    pid_file = home / "run" / "strata.pid"
    pid_file.parent.mkdir(parents=True, exist_ok=True)
    pid_file.write_text(f"{os.getpid()} {child.pid}")
    try:
        with console.status("Starting Serve ..."):
            ready = _wait_ready(url, child, stopping, timeout_s)
        if not ready:
            if not stopping.asked:
                console.print(f"[red]Strata did not become ready.[/red] The last lines of {logs}:", highlight=False)
                console.print(_tail(logs), markup=False, highlight=False)
            return 0 if stopping.asked else 1
        _greet(url, file, time.monotonic() - started, console)
        _watch(file, child, stopping)
        if not stopping.asked:
            console.print(f"[red]Serve ended by itself[/red]; see {logs}", highlight=False)
        return 0 if stopping.asked else 1
    finally:
        with console.status("Stopping ..."):
            _stop_serve(child)
            if file.stores.sessions_url == "bundled":
                valkey_server.stop(home)
        pid_file.unlink(missing_ok=True)
        console.print("Stopped.")


def _environment(home: Path, metrics: Path, transport: Transport | None) -> dict[str, str]:
    """Ours, which the caller's may override, but not what was asked for on the command line."""
    lines = home / "logs" / "strata.jsonl"  # what the replicas have to say, beside what Serve says in serve.log
    own = {"PROMETHEUS_MULTIPROC_DIR": str(metrics), "STRATA_LOGS": str(lines), PREPARED: "1"}
    chosen = TRANSPORTS[transport] if transport else {}
    return {**own, **RAY_ENVIRONMENT, **LOCAL_ENVIRONMENT, **os.environ, **chosen}


def _heed_interrupts() -> None:
    """A shell that starts us in the background has SIGINT ignored, and children inherit that: Serve would not hear us."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class _Signals:
    """Ctrl-C and SIGTERM ask; they do not interrupt what stops things in order."""

    def __init__(self) -> None:
        self.asked = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._ask)

    def _ask(self, number: int, frame: object) -> None:
        self.asked = True


def _watch(file: ServeFile, child: subprocess.Popen[bytes], stopping: _Signals) -> None:
    """Until Serve ends or we are asked to stop. A bundled session server that died is started again over what it wrote down."""
    looked = time.monotonic()
    while child.poll() is None and not stopping.asked:
        if file.stores.sessions_url == "bundled" and time.monotonic() - looked > LOOK_S:
            with contextlib.suppress(ConfigError):  # its log says why; the next look tries again
                valkey_server.ensure_running(file.stores.home)
            looked = time.monotonic()
        time.sleep(0.2)


def check_port(host: str, port: int, config: Path) -> None:
    """ConfigError where somebody else listens there already."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            fix = f"port {port} on {host} is taken: run `strata down`, or set another http_options.port"
            raise ConfigError(str(config), fix) from None


def prepare_everything(file: ServeFile, console: Console) -> None:
    """The model (once), stores, schema, tenants; with bars, because the first time takes a while."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        model = bars.add_task("Embedding model", total=1.0)
        prepare(
            file.inference.embedder,
            file.stores.home,
            lambda stage, done: bars.update(model, description=stage, completed=done),
        )
        bars.update(model, completed=1.0)
        stores = bars.add_task("Stores", total=1.0)
        prepare_stores(
            file.stores, lambda stage, done: bars.update(stores, description=f"Stores: {stage}", completed=done)
        )


def _wait_ready(url: str, child: subprocess.Popen[bytes], stopping: _Signals, timeout_s: float) -> bool:
    """Ready means that every route is known: the proxy answers 404 to everything in its first seconds."""
    deadline = time.monotonic() + timeout_s
    with httpx.Client(base_url=url, timeout=2.0, trust_env=False) as client:
        while time.monotonic() < deadline and child.poll() is None and not stopping.asked:
            try:
                if client.get("/readyz").status_code == 200 and client.post("/v1/context", json={}).status_code == 401:
                    return True
            except httpx.HTTPError:
                pass
            time.sleep(0.2)
    return False


def _greet(url: str, file: ServeFile, seconds: float, console: Console) -> None:
    key_file = file.stores.home / "secrets" / "demo.key"
    key = key_file.read_text().strip() if key_file.is_file() else "<a tenant key>"
    console.print(
        f"\n[bold green]Strata is ready[/bold green] at [bold]{url}[/bold] (in {seconds:.0f} s; docs at {url}/docs)"
    )
    console.print(f"Demo key: {key}\n", highlight=False)
    console.print("Try it:", highlight=False)
    bearer = "-H 'Content-Type: application/json' -H"
    for line in (
        f"TOKEN=$(curl -s {url}/v1/sessions {bearer} 'Authorization: Bearer {key}'"
        ' -d \'{"user_id": "ann", "session_id": "first"}\''
        " | python3 -c 'import json, sys; print(json.load(sys.stdin)[\"token\"])')",
        f'curl -s {url}/v1/sessions/first/turns {bearer} "Authorization: Bearer $TOKEN"'
        ' -d \'{"turns": [{"role": "user", "content": "我对花生过敏。I live in Lyon."}]}\'',
        f'curl -s {url}/v1/context {bearer} "Authorization: Bearer $TOKEN" -d \'{{"query": "推荐一道菜"}}\'',
    ):
        console.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)
    console.print("\nOr, in another shell: [bold].venv/bin/strata demo[/bold]. Ctrl-C stops everything.")


def _stop_serve(child: subprocess.Popen[bytes]) -> None:
    """SIGINT first: Serve drains and Ray goes down in order. Then, without mercy, its whole process group."""
    if child.poll() is None:
        child.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(STOP_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait(2.0)


def _tail(path: Path, lines: int = 15) -> str:
    return "\n".join(path.read_text("utf-8", "replace").splitlines()[-lines:])
