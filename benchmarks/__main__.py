"""`make bench`, or `python -m benchmarks`: every speed benchmark in turn, and one table at the end.

    python -m benchmarks                    # embed, rerank, queueing, context, load: under fifteen minutes on two cores
    python -m benchmarks --only embed load
    python -m benchmarks --only stores      # the stores beside their floors

Each is a process of its own with a time limit; one that fails is shown with the end of what it said, and the others go on. The exit
status is 1 where one failed. A goal that was missed is marked in the table and is no failure: figures depend on the machine.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks.report import Row, read_rows, tell

WITHIN_S = 870.0
"""All of them together, what is printed included: a quarter of an hour."""
GRACE_S = 40.0
"""What a benchmark may take to stop the service that it started, once its time is over."""


@dataclass(frozen=True)
class Bench:
    """A module of this package, run with `arguments` and `--json PATH` for at most `limit_s` seconds."""

    name: str
    limit_s: float
    arguments: tuple[str, ...] = ()


ALL = (
    Bench("embed", 180),
    Bench("rerank", 150),
    Bench("queueing", 150),
    Bench("context", 180),
    Bench("load", 180, ("--rate", "5", "10", "--seconds", "15", "--tenants", "4", "--entries", "20")),
    Bench("stores", 300, ("--times", "100", "--tenants", "200")),
)
BY_DEFAULT = ("embed", "rerank", "queueing", "context", "load")


@dataclass(frozen=True)
class Ended:
    """What one benchmark found, or why it found nothing."""

    name: str
    seconds: float
    rows: Sequence[Row] = ()
    error: str = ""


def run(bench: Bench, limit_s: float, package: str = "benchmarks") -> Ended:
    """Never raises for what the benchmark does."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        path, log = Path(folder) / "rows.json", Path(folder) / "log"
        command = [sys.executable, "-m", f"{package}.{bench.name}", *bench.arguments, "--json", str(path)]
        with log.open("wb") as sink:
            child = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status = child.wait(limit_s)
            error = "" if status == 0 else f"ended with {status}: {_end(log)}"
        except subprocess.TimeoutExpired:
            error = f"not done after {limit_s:.0f} s: {_end(log)}"
        finally:
            _stop(child)
        rows: list[Row] = []
        if not error:
            try:
                rows = read_rows(path)
            except (OSError, ValueError, TypeError) as wrong:
                error = f"wrote no rows that can be read ({type(wrong).__name__})"
    return Ended(bench.name, time.monotonic() - began, rows, error)


def _stop(child: "subprocess.Popen[bytes]") -> None:
    """An interrupt first: what started a service stops it. Then its whole group."""
    if child.poll() is None:
        child.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _end(log: Path, lines: int = 12) -> str:
    return "\n".join(log.read_text("utf-8", "replace").strip().splitlines()[-lines:])


def run_all(benches: Sequence[Bench], within_s: float, console: Console, package: str = "benchmarks") -> list[Ended]:
    """One after another, so that none measures another. What no time is left for is not begun."""
    until, ended = time.monotonic() + within_s, list[Ended]()
    for number, bench in enumerate(benches, 1):
        left = until - time.monotonic()
        if left < 10:
            ended.append(Ended(bench.name, 0.0, error=f"not begun: the {within_s:.0f} s of all were over"))
            continue
        with console.status(f"{bench.name} ({number} of {len(benches)}) ..."):
            ended.append(run(bench, min(bench.limit_s, left), package))
        word = "[red]failed[/red]" if ended[-1].error else f"{len(ended[-1].rows)} figures"
        console.print(f"{bench.name}: {word} in {ended[-1].seconds:.0f} s", highlight=False)
    return ended


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=[bench.name for bench in ALL], default=list(BY_DEFAULT))
    parser.add_argument("--within", type=float, default=WITHIN_S, metavar="SECONDS")
    parser.add_argument("--json", type=Path, help="keep all rows here as well")
    options = parser.parse_args(arguments)
    console = Console(width=150)
    ended = run_all([bench for bench in ALL if bench.name in options.only], options.within, console)
    rows = [row for one in ended for row in one.rows]
    tell(rows, "Speed: ours, what it is held against, the goal", options.json)
    missed = sum(row.met is False for row in rows)
    held = sum(row.met is True for row in rows)
    console.print(
        f"{held} goals met, {missed} missed; {sum(one.seconds for one in ended):.0f} s in all", highlight=False
    )
    failed = [one for one in ended if one.error]
    for one in failed:
        console.print(f"[red]{one.name}[/red] {one.error}", highlight=False)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
