"""Stop a Strata that another shell started. Imports little: whoever stops something is in a hurry."""

import os
import signal
import time
from pathlib import Path

from rich.console import Console

from models.settings import strata_home
from storage.sessions import valkey_server

WAIT_S = 12.0


def stop(console: Console) -> int:
    """For a Strata in another shell; 0 also where none runs. Where `strata up` itself was killed, what it left is stopped."""
    home = strata_home()
    pid_file = home / "run" / "strata.pid"
    try:
        watcher, serve = (int(pid) for pid in pid_file.read_text().split())
    except (FileNotFoundError, ValueError):
        watcher = serve = 0
    if _signalled(watcher, signal.SIGTERM) and not _gone(watcher):
        console.print(f"[red]Process {watcher} is still stopping.[/red]")
        return 1
    ran = pid_file.exists()
    if _signalled(serve, signal.SIGINT) and not _gone(serve):
        os.killpg(serve, signal.SIGKILL)
    stopped = valkey_server.stop(home)
    pid_file.unlink(missing_ok=True)
    console.print("Stopped." if ran or watcher or stopped else "Strata was not running.")
    return 0


def _signalled(pid: int, number: signal.Signals) -> bool:
    """False where there is no such process, or it is not one of Strata's (a pid may be given anew)."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        if pid and (b"strata" in command or b"serve" in command):
            os.kill(pid, number)
            return True
    except OSError:
        pass
    return False


def _gone(pid: int) -> bool:
    """Waits until the process has ended (True), at most WAIT_S."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False
