"""`python -m benchmarks.stores`: median milliseconds of each store's calls, one client, beside the floor of the same run.

Without options the embedded tier is measured. A server is measured too where an option names one:

    python -m benchmarks.stores --redis redis://127.0.0.1:6379 --records mysql://… --weaviate http://127.0.0.1:8080,50051

Names what it makes by random tenants; index partitions are dropped at the end, rows of the records stay in that database.
"""

import argparse
import asyncio
import os
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from rich.console import Console
from rich.table import Table

from benchmarks.report import Row, tell
from benchmarks.stores import records, sessions, vectors
from benchmarks.stores.measuring import Figure
from storage.index.local import LocalIndex
from storage.index.weaviate.index import WeaviateIndex
from storage.index.weaviate.settings import WeaviateSettings
from storage.protocols import VectorIndex
from storage.sessions import valkey_server

MODEL_KEY = "bench_384"


def weaviate(address: str) -> WeaviateIndex:
    """`http://host:port,grpc-port`, as the tests take it."""
    http, _, grpc_port = address.rpartition(",")
    host = http.split("://")[1].rsplit(":", 1)[0]
    settings = WeaviateSettings(http=http, grpc=f"{host}:{grpc_port}", collection="StrataBench")
    return WeaviateIndex(settings, None, MODEL_KEY, vectors.DIMENSION, deadline_s=60.0)


def table(figures: list[Figure]) -> Table:
    shown = Table(title="Stores: median of one call, one client")
    for column in ("backend", "call", "p50 ms", "floor ms", "ratio", "floor"):
        shown.add_column(column, justify="right" if column.endswith("ms") or column == "ratio" else "left")
    for figure in figures:
        floor = "" if figure.floor_ms is None else f"{figure.floor_ms:.3f}"
        ratio = "" if figure.ratio is None else f"{figure.ratio:.2f}"
        shown.add_row(figure.backend, figure.call, f"{figure.p50_ms:.2f}", floor, ratio, figure.floor)
    return shown


def row(figure: Figure) -> Row:
    """A median beside its floor; no goal is set on it."""
    return Row(f"{figure.backend}: {figure.call}", figure.p50_ms, "ms", figure.floor, figure.floor_ms, better="lower")


async def measure(options: argparse.Namespace, home: Path) -> list[Figure]:
    figures = await sessions.measure("bundled Valkey", valkey_server.ensure_running(home), options.times)
    for url in options.redis:
        figures += await sessions.measure(url.partition(":")[0], url, options.times)
    figures += await records.measure("SQLite", f"sqlite:///{home / 'records.db'}", options.times)
    for url in options.records:
        figures += await records.measure(url.partition(":")[0].partition("+")[0], url, options.times)
    indexes: dict[str, VectorIndex] = {
        "local": LocalIndex(home / "index", MODEL_KEY, vectors.DIMENSION, deadline_s=60.0)
    }
    if options.weaviate:
        indexes["Weaviate"] = weaviate(options.weaviate)
    for name, index in indexes.items():
        try:
            await index.check()
            figures += await vectors.measure(name, index, options.times, tuple(options.sizes))
            figures += await vectors.growth(name, index, options.times, options.tenants)
        finally:
            await index.aclose()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stores", description=__doc__.split("\n")[0])
    parser.add_argument("--redis", action="append", default=[], metavar="URL")
    parser.add_argument("--records", action="append", default=[], metavar="URL")
    parser.add_argument("--weaviate", metavar="HTTP,GRPC_PORT")
    parser.add_argument("--times", type=int, default=300, help="calls that each median is of")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000], help="entries of the user searched in")
    parser.add_argument("--tenants", type=int, default=1_000)
    parser.add_argument("--json", type=Path, help="the rows of `make bench`")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sb-") as folder:
        home = Path(folder)
        try:
            figures = asyncio.run(measure(options, home))
        finally:
            valkey_server.stop(home)
    if options.json:
        tell([row(figure) for figure in figures], "Stores", options.json)
    else:
        Console(width=130).print(table(figures))


if __name__ == "__main__":
    main()
