"""Ends servers and removes their folders when the process that started them is gone, however it went.

Run as a script: it reads `+ pid start`, `- pid`, `rm folder` and `kept folder` from its input, whose end is the signal. A process is
known by its id together with its start time, so that an id that was given away since is left alone.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path


def started_at(pid: int) -> str | None:
    """In clock ticks since boot; None where there is no such process, or only its remains."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


class Guardian:
    """The other end: tells the script what to watch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-E", __file__], stdin=subprocess.PIPE, start_new_session=True
        )

    def watch(self, pid: int) -> None:
        self._tell(f"+ {pid} {started_at(pid)}")

    def ended(self, pid: int) -> None:
        self._tell(f"- {pid}")

    def will_remove(self, folder: Path) -> None:
        self._tell(f"rm {folder}")

    def removed(self, folder: Path) -> None:
        self._tell(f"kept {folder}")

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()


@cache
def guardian() -> Guardian:
    """This process's own, started when the first server is."""
    return Guardian()


def _keep_watch() -> None:
    processes: dict[int, str] = {}
    folders: set[str] = set()
    for line in sys.stdin:
        what, _, rest = line.rstrip("\n").partition(" ")
        if what == "+":
            pid, start = rest.split()
            processes[int(pid)] = start
        elif what == "-":
            processes.pop(int(rest), None)
        elif what == "rm":
            folders.add(rest)
        else:
            folders.discard(rest)
    for pid, start in processes.items():
        if started_at(pid) == start:
            os.kill(pid, signal.SIGKILL)
    for folder in folders:
        for _ in range(3):  # a server that is just dying may still write
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _keep_watch()
