"""`python -m benchmarks.load`: an open loop of turns, contexts and searches on a Strata of its own, or on a running one.

    python -m benchmarks.load                                # a sweep: 5, 10, 20 requests/s, twenty seconds each
    python -m benchmarks.load --find                         # the highest rate that keeps p99 and errors within bounds
    python -m benchmarks.load --soak 3600 --rate 5           # an hour, and what memory does meanwhile
    python -m benchmarks.load --url https://… --keys FILE    # keys: one tenant key a line, with the grants memory and import

Poisson arrivals, fixed by the seed; latency counts from a call's intended start. Figures of CPU and memory need the processes on this
machine: of a running Strata, those with --home's STRATA_HOME.
"""

import argparse
import asyncio
import contextlib
import json
import math
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.load import plotting, showing
from benchmarks.load.driving import connect
from benchmarks.load.figures import Bound, Step
from benchmarks.load.processes import Watch
from benchmarks.load.running import Load, Soak
from benchmarks.load.schedule import Population, parse_mix
from benchmarks.load.users import declare, populate
from benchmarks.report import tell
from benchmarks.service import Service

console = Console(width=150)


@dataclass
class Target:
    url: str
    keys: list[str]
    home: Path | None


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.load", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rate", type=float, nargs="+", default=[5.0, 10.0, 20.0], help="requests/s, all calls together"
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="of each step")
    parser.add_argument("--mix", type=parse_mix, default=parse_mix("turns=4,context=5,search=1"))
    parser.add_argument("--tenants", type=int, default=8)
    parser.add_argument("--users", type=int, default=5, help="of each tenant")
    parser.add_argument("--sessions", type=int, default=2, help="of each user, at a time")
    parser.add_argument("--entries", type=int, default=25, help="memories that each user has before the load")
    parser.add_argument(
        "--skew", type=float, default=1.0, help="the k-th tenant is asked for k^-skew as often as the first"
    )
    parser.add_argument(
        "--in-flight", type=int, default=256, help="calls at once; what is due beyond them is not sent, and counted"
    )
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--find", action="store_true", help="the highest rate within the bounds")
    parser.add_argument("--p99-ms", type=float, default=1000.0)
    parser.add_argument("--error-share", type=float, default=0.01)
    parser.add_argument("--find-s", type=float, default=240.0, help="the search ends after so many seconds")
    parser.add_argument("--soak", type=float, metavar="SECONDS")
    parser.add_argument("--url", help="a running Strata, instead of one of its own")
    parser.add_argument("--keys", type=Path)
    parser.add_argument("--home", type=Path, help="of a running Strata on this machine")
    parser.add_argument("--topology", choices=["split", "fused"], default="split")
    parser.add_argument("--transport", choices=["haproxy", "python"], default="haproxy")
    parser.add_argument("--out", type=Path, help="a folder for load.json and load.png")
    parser.add_argument("--json", type=Path, help="the rows of `make bench`")
    options = parser.parse_args(arguments)
    if (options.url is None) != (options.keys is None):
        parser.error("--url and --keys go together")
    return options


@contextlib.contextmanager
def target(options: argparse.Namespace) -> Iterator[Target]:
    if options.url:
        keys = [line.strip() for line in options.keys.read_text("utf-8").splitlines() if line.strip()]
        options.tenants = min(options.tenants, len(keys))
        yield Target(options.url, keys, options.home)
        return
    with (
        tempfile.TemporaryDirectory(prefix="sl-") as folder,
        Service(topology=options.topology, transport=options.transport) as service,
    ):
        yield Target(service.url, declare(service, Path(folder) / "tenants", options.tenants), service.home)


async def measure(options: argparse.Namespace, at: Target) -> dict[str, Any]:
    """What was found: `steps`, or `soak`; `highest` where it was asked for."""
    population = Population(options.tenants, options.users, options.sessions, options.skew)
    watch = Watch(at.home) if at.home else None
    async with connect(at.url) as http:
        slots = await populate(http, at.keys, population, options.entries)
        load = Load(http, slots, options.mix, population, watch, options.seed, options.in_flight)
        await load.warm_up()
        if options.soak:
            return {"soak": await load.soak(options.rate[0], options.soak)}

        def told(step: Step) -> None:
            console.print(showing.in_one_line(step), highlight=False)

        if options.find:
            bound = Bound(options.p99_ms, options.error_share)
            steps, highest = await load.find(bound, options.rate[0], options.seconds, options.find_s, told)
            return {"steps": steps, "highest": highest}
        steps = []
        for rate in options.rate:
            steps.append(await load.step(rate, options.seconds))
            told(steps[-1])
        return {"steps": steps}


def keep(options: argparse.Namespace, found: dict[str, Any]) -> None:
    options.out.mkdir(parents=True, exist_ok=True)
    asked = {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()}
    if "soak" in found:
        soak: Soak = found["soak"]
        plotting.over_time(soak.windows, soak.memory, options.out / "load.png")
        kept: dict[str, Any] = asdict(soak)
    else:
        plotting.over_rates(found["steps"], options.out / "load.png")
        kept = {"steps": [asdict(step) for step in found["steps"]]}
        if not math.isnan(found.get("highest", math.nan)):
            kept["highest"] = found["highest"]
    (options.out / "load.json").write_text(json.dumps({"asked": asked, **kept}, indent=1, default=str), "utf-8")
    console.print(f"kept in {options.out}: load.json, load.png")


def main() -> None:
    options = parse()
    with target(options) as at:
        found = asyncio.run(measure(options, at))
    if "soak" in found:
        showing.soak(found["soak"], console)
    else:
        showing.steps(found["steps"], console)
        if "highest" in found:
            bounds = f"p99 <= {options.p99_ms:g} ms, errors <= {options.error_share:.0%}"
            console.print(f"highest rate that kept {bounds}: [bold]{found['highest']:.1f}[/bold] requests/s")
        rows = showing.rows(found["steps"], found.get("highest"))
        tell(rows, "Load", options.json)
    if options.out:
        keep(options, found)


if __name__ == "__main__":
    main()
