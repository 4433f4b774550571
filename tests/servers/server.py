"""One server process of a test run: started, stopped, killed, stalled and started again with the same data on the same port."""

import contextlib
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.servers.guardian import guardian, started_at

_PORTS = range(21_000, 32_000)
"""Below what systems give to outgoing connections: while a server is down nobody else gets its port."""

_POLL_S = 0.03
_LAUNCHES = 8


class Server:
    """Make it with `with`, or call `start` and, in the end, `remove`. All calls block: from a coroutine, asyncio.to_thread."""

    accounts: tuple[str, ...] = ()
    """The first of these that exists runs it, where we are root: some servers refuse to be root's."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="st-"))
        guardian().will_remove(self.folder)
        self.port = spare_port()
        self.account = _account(self.accounts)
        if self.account:
            os.chown(self.folder, self.account.pw_uid, self.account.pw_gid)
        self.log = self.folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._ready_once = False

    # --- what a kind of server says of itself

    @property
    def url(self) -> str:
        """As Strata's configuration takes it."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Before the first start: files and folders."""

    def command(self) -> list[str]:
        raise NotImplementedError

    def answers(self) -> bool:
        """Whether this very server, and no other on its port, does its work."""
        raise NotImplementedError

    def first_start(self) -> None:
        """After it answered for the first time: databases and the like."""

    # --- its life

    def start(self, timeout_s: float = 120.0) -> None:
        """Returns when it answers. A second start goes on with the same data on the same port."""
        until = time.monotonic() + timeout_s
        if not self._ready_once and not self.log.exists():
            self.log.touch()
            self.prepare()
        for _ in range(_LAUNCHES):
            self._launch()
            while self.running and time.monotonic() < until:
                if self.answers():
                    if not self._ready_once:
                        self.first_start()
                    self._ready_once = True
                    return
                time.sleep(_POLL_S)
            if self.running:
                break
            # It ended at once: its port was taken, or what is left of a killed one is still about.
            if not self._ready_once:
                self.port = spare_port()
            time.sleep(0.3)
        self.kill()
        raise RuntimeError(f"{type(self).__name__} did not start; the end of its log:\n{self._end_of_log()}")

    def stop(self, timeout_s: float = 60.0) -> None:
        """In order, everything on disk. No error where it does not run."""
        if self._process is not None and self.running:
            self.resume()
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout_s)
        self.kill()

    def kill(self) -> None:
        """kill -9, with every process that it made."""
        if self._process is None:
            return
        for pid in self.family():
            _signal(pid, signal.SIGKILL)
        self._process.wait(60)
        guardian().ended(self._process.pid)
        self._process = None

    def pause(self) -> None:
        """It takes connections (the kernel does) and never answers, until `resume`."""
        for pid in self.family():
            _signal(pid, signal.SIGSTOP)

    def resume(self) -> None:
        for pid in reversed(self.family()):
            _signal(pid, signal.SIGCONT)

    def remove(self) -> None:
        """End it and remove its data."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        guardian().removed(self.folder)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def family(self) -> list[int]:
        """The server and what it made, parents first."""
        found = [self._process.pid] if self._process is not None and self.running else []
        for pid in found:
            for task in Path(f"/proc/{pid}/task").glob("*/children"):
                with contextlib.suppress(OSError):
                    found += [int(child) for child in task.read_text().split()]
        return found

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.remove()

    # --- helpers of the kinds

    def run(self, *command: str, text: str = "", timeout_s: float = 120.0) -> str:
        """A helper program, as the server's own account. Its output, or RuntimeError with it."""
        done = subprocess.run(
            command,
            input=text.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            cwd=self.folder,
            env=_environment(),
            **self._as_account(),
        )
        if done.returncode != 0:
            raise RuntimeError(f"{Path(command[0]).name} failed:\n{done.stdout.decode(errors='replace')[-2000:]}")
        return done.stdout.decode(errors="replace")

    def _launch(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=_environment(),
                start_new_session=True,  # Ctrl-C is pytest's, which then takes its servers down in order
                **self._as_account(),
            )
        guardian().watch(self._process.pid)

    def _as_account(self) -> dict:
        if not self.account:
            return {}
        return {"user": self.account.pw_uid, "group": self.account.pw_gid, "extra_groups": []}

    def _end_of_log(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]


def spare_port() -> int:
    """A loopback port that nobody listens on."""
    while True:
        port = random.choice(_PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port


def _account(names: tuple[str, ...]) -> pwd.struct_passwd | None:
    if os.getuid() != 0:
        return None
    for name in names:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    return None


def _environment() -> dict[str, str]:
    return {
        "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }


def _signal(pid: int, which: signal.Signals) -> None:
    if started_at(pid) is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, which)
