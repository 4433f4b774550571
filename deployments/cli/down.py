"""Stop a Strata that another shell started. Imports little: whoever stops something is in a hurry."""

import os
import signal
import time

from rich.console import Console

from models.settings import strata_home
from storage.sessions import valkey_server

WAIT_S = 12.0


def stop(console: Console) -> int:
    """For a Strata in another shell; 0 also where none runs."""
    home = strata_home()
    pid_file = home / "run" / "strata.pid"
    try:
        pid = int(pid_file.read_text())
        os.kill(pid, signal.SIGTERM)
    except (FileNotFoundError, ValueError, ProcessLookupError):
        valkey_server.stop(home)
        pid_file.unlink(missing_ok=True)
        console.print("Strata was not running.")
        return 0
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            console.print("Stopped.")
            return 0
        time.sleep(0.1)
    console.print(f"[red]Process {pid} is still stopping.[/red]")
    return 1
