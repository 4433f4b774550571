"""Processes to be killed: forked from a server that has imported everything, so that each starts in a few hundredths of a second.

What runs in them is a coroutine function of this package; what it returns comes back, unless it was killed first.
"""

import asyncio
import multiprocessing
import os
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

PRELOADED = ["tests.faults.preloaded"]
PATIENCE_S = 240.0
EXIT_S = 30.0

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(PRELOADED)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended: `signal` it was killed by (0: it came to its end), and what it returned."""

    signal: int
    value: Any = None


class Child:
    """One process that runs `work(*args)`; with `told`, `work(*args, tell)`, where tell(anything) sends it to `answers`."""

    def __init__(self, work: Callable[..., Awaitable[Any]], *args: Any, told: bool = False) -> None:
        self.answers, theirs = _context.Pipe(duplex=False)
        self.process: BaseProcess = _context.Process(target=_run, args=(theirs, work, args, told), daemon=True)
        self.process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def send(self, number: signal.Signals) -> None:
        if self.process.is_alive():
            os.kill(self.pid, number)

    def stopped(self) -> bool:
        """Whether it lies in SIGSTOP."""
        with open(f"/proc/{self.pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "T"

    def wait_until_stopped(self) -> None:
        until = time.monotonic() + PATIENCE_S
        while not self.stopped():
            assert self.process.is_alive(), "the process ended instead of stopping"
            assert time.monotonic() < until, "the process did not stop itself"
            time.sleep(0.01)

    def end(self, patience_s: float = PATIENCE_S) -> Ended:
        """Waits for its end. A process that failed, or did not end, fails the test."""
        value: Any = None
        try:
            if self.answers.poll(patience_s):
                value = self.answers.recv()
        except EOFError:  # killed
            pass
        self.process.join(EXIT_S)
        code = self.process.exitcode
        self.close()
        assert code is not None, "the process did not end"
        assert code <= 0, f"the process failed:\n{value}"
        return Ended(-code, value)

    def close(self) -> None:
        """Killed, if it still runs."""
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.answers.close()


def run(work: Callable[..., Awaitable[Any]], *args: Any) -> Ended:
    child = Child(work, *args)
    try:
        return child.end()
    finally:
        child.process.is_alive() and child.close()


def _run(answers: Connection, work: Callable[..., Awaitable[Any]], args: tuple[Any, ...], told: bool) -> None:
    import traceback

    try:
        answers.send(asyncio.run(work(*args, *([answers.send] if told else []))))
    except BaseException:
        answers.send(traceback.format_exc())
        answers.close()
        os._exit(1)
