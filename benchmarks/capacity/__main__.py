"""`python -m benchmarks.capacity`: what Strata costs, measured group by group, for `strata size` and docs/capacity.md.

    python -m benchmarks.capacity --write                                      # every group of the embedded tier
    python -m benchmarks.capacity --only records rows --records mysql://… --write
    python -m benchmarks.capacity --only service --records mysql://… --redis redis://… --weaviate http://host:port,grpc-port --write
    python -m benchmarks.capacity --only weaviate --weaviate http://host:port,grpc-port --weaviate-data DIR --write

| group | what | about |
|---|---|---|
| service | CPU of each call by process, idle CPU, memory of each process, on a Strata of its own, of either tier | 4 min |
| records, sessions, index, weaviate | bytes of an entry, of a session, of a tenant | 1 min each |
| tenants | --tenants of them: creating, looking up, polling, searching, start-up | 3 min for 10,000 |
| rows | --rows of them in SQL: the statements of the hot path, with few and with all | 3 min for a million |

With --write the groups that were measured replace those in deployments/sizing_figures.yaml, and the tables of docs/capacity.md are made
anew from it; the other groups stay.
"""

import argparse
import asyncio
import importlib.metadata
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import psutil
import yaml
from rich.console import Console

from benchmarks.capacity import document, growth, service, sizes
from deployments.cli.size import FIGURES
from storage.sessions import valkey_server

GROUPS = ("service", "records", "sessions", "index", "weaviate", "tenants", "rows")
PARTED = ("service", "records", "rows", "index")
"""Groups with a part for each tier or backend."""
console = Console(width=150)


def say(what: str) -> None:
    console.print(f"  {what}", highlight=False, style="dim")


def machine() -> dict[str, Any]:
    return {
        "at": datetime.now(UTC).date().isoformat(),
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in ("ray", "torch", "sqlalchemy")},
    }


def _processor() -> str:
    """Its name, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def dialect(url: str) -> str:
    """What the figures of a database are kept under."""
    return url.partition(":")[0].partition("+")[0]


def measure(options: argparse.Namespace, home: Path) -> dict[str, Any]:
    """The groups that were asked for."""
    found: dict[str, Any] = {}
    urls = {dialect(url): url for url in options.records} or {"sqlite": ""}
    groups: dict[str, Callable[[], Any]] = {
        "service": lambda: _service(options),
        "records": lambda: {name: _records(url, home) for name, url in urls.items()},
        "sessions": lambda: _sessions(home),
        "index": lambda: {"local": asyncio.run(sizes.index_sizes(home / "index", sizes.samples(2000)))},
        "weaviate": lambda: _weaviate(options),
        "tenants": lambda: asyncio.run(
            growth.many_tenants(home / "many", f"sqlite:///{home / 'tenants.db'}", options.tenants, say)
        ),
        "rows": lambda: {
            name: asyncio.run(growth.many_rows(url or f"sqlite:///{home / 'rows.db'}", options.rows, say))
            for name, url in urls.items()
        },
    }
    for name in options.only:
        console.print(name, style="bold")
        found[name] = groups[name]()
    if "weaviate" in found:
        found["index"] = {**found.get("index", {}), "weaviate": found.pop("weaviate")}
    return found


def _service(options: argparse.Namespace) -> Any:
    if not options.redis:
        return {"embedded": service.costs(options.seconds, say)}
    servers = service.Servers(options.redis, options.records[0], options.weaviate)
    return {"production": service.costs(options.seconds, say, servers)}


def _records(url: str, home: Path) -> Any:
    return asyncio.run(sizes.record_sizes(url or f"sqlite:///{home / 'records.db'}", sizes.samples(2000)))


def _weaviate(options: argparse.Namespace) -> Any:
    from benchmarks.capacity import weaviate  # the client is an extra

    return weaviate.sizes(options.weaviate, options.weaviate_data, say)


def _sessions(home: Path) -> Any:
    try:
        return asyncio.run(sizes.session_sizes(valkey_server.ensure_running(home)))
    finally:
        valkey_server.stop(home)


def merged(known: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """A group that has parts (records, rows, index: one of each backend) keeps those that were not measured now."""
    joined = dict(known)
    for group, figures in found.items():
        joined[group] = {**joined.get(group, {}), **figures} if group in PARTED else figures
    return joined


def write(found: dict[str, Any], path: Path = FIGURES) -> None:
    known = yaml.safe_load(path.read_text("utf-8")) if path.exists() else {}
    here = machine()
    told = f"{here['at']}, {here['cores']} cores, {here['cpu']}"
    parts = {f"{group} {part}" for group in PARTED for part in found.get(group, {})}
    measured = known.get("measured", {}) | dict.fromkeys(parts | (set(found) - set(PARTED)), told)
    joined = merged(known, {**found, "machine": here, "measured": measured})
    head = (
        "# What was measured, and on what: written by `python -m benchmarks.capacity --write`, read by `strata size`.\n"
    )
    path.write_text(head + yaml.safe_dump(joined, sort_keys=True, allow_unicode=True), "utf-8")
    document.fill(yaml.safe_load(path.read_text("utf-8")))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.capacity",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=[name for name in GROUPS if name != "weaviate"])
    parser.add_argument("--records", action="append", default=[], metavar="URL", help="of a database server")
    parser.add_argument(
        "--redis", metavar="URL", help="with --records and --weaviate: measure `service` on these three"
    )
    parser.add_argument("--weaviate", metavar="HTTP,GRPC_PORT")
    parser.add_argument(
        "--weaviate-data", type=Path, metavar="DIR", help="where that server, on this machine, keeps its data"
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="of each call of the service")
    parser.add_argument("--tenants", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", action="store_true", help="keep the figures for `strata size` and docs/capacity.md")
    parser.add_argument("--fill", action="store_true", help="measure nothing: make the tables of docs/capacity.md anew")
    options = parser.parse_args(arguments)
    if options.fill:
        document.fill(yaml.safe_load(FIGURES.read_text("utf-8")))
        return 0
    if "weaviate" in options.only and not (options.weaviate and options.weaviate_data):
        parser.error("the group weaviate needs --weaviate and --weaviate-data")
    if options.redis and not (options.records and options.weaviate):
        parser.error("--redis goes with --records and --weaviate")
    with tempfile.TemporaryDirectory(prefix="sb-") as folder:
        found = measure(options, Path(folder))
    console.print(yaml.safe_dump(found, sort_keys=True, allow_unicode=True), highlight=False)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1), "utf-8")
    if options.write:
        write(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
