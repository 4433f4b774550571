"""`python -m benchmarks.context`: what a context call costs, beside its floor in the same run.

Ours: p50 and CPU of POST /v1/context on a freshly started Strata (embedded tier) at concurrency 1 and 8, for a user with a few
hundred memories and a session of twenty turns, questions in Chinese and English that were not asked before.

The floor is what no implementation on this machine could go below with the same model: a bare request to the same ingress
(GET /healthz), plus the bare encoding of one question, plus an exact search of the user's vectors.
"""

import argparse
import asyncio
import json
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx
import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.phrases import memories, questions
from benchmarks.service import Service
from models.encoder import Encoder
from models.settings import EncoderSettings


@dataclass(frozen=True)
class Load:
    """One measured load: milliseconds, requests a second, milliseconds of CPU a request over all of Strata's processes."""

    name: str
    concurrency: int
    requests: int
    p50: float
    p95: float
    per_second: float
    cpu: float


def cpu_seconds(service: Service) -> float:
    """User and system time of the whole process tree, the session server included."""
    total = 0.0
    for process in psutil.process_iter(["cpu_times", "environ"]):
        environment = process.info["environ"] or {}
        if environment.get("STRATA_HOME") == str(service.home) and process.info["cpu_times"]:
            total += process.info["cpu_times"].user + process.info["cpu_times"].system
    return total


async def _load(
    name: str, concurrency: int, requests: int, service: Service, call: Callable[[int], Awaitable[None]]
) -> Load:
    """Closed loop: `concurrency` callers, each sends its next request when the last one is answered."""
    times: list[float] = []
    numbers = iter(range(requests))

    async def caller() -> None:
        for number in numbers:
            start = time.perf_counter()
            await call(number)
            times.append(time.perf_counter() - start)

    cpu, start = cpu_seconds(service), time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(concurrency)))
    wall = time.perf_counter() - start
    cpu = cpu_seconds(service) - cpu
    ordered = sorted(times)
    p95 = ordered[int(len(ordered) * 0.95)]
    return Load(
        name, concurrency, requests, statistics.median(times) * 1e3, p95 * 1e3, requests / wall, cpu / requests * 1e3
    )


async def measure(service: Service, entries: int, requests: int) -> list[Load]:
    limits = httpx.Limits(max_connections=16, max_keepalive_connections=16)
    async with httpx.AsyncClient(base_url=service.url, timeout=30.0, limits=limits, trust_env=False) as client:
        token = await _prepare_user(client, service.key, entries)
        headers = {"Authorization": f"Bearer {token}"}
        asked = questions(4 * requests + 64)

        async def context(number: int) -> None:
            body = {"query": asked[number % len(asked)], "budget_tokens": 2000}
            (await client.post("/v1/context", json=body, headers=headers)).raise_for_status()

        async def bare(_: int) -> None:
            (await client.get("/healthz")).raise_for_status()

        for number in range(32):
            await context(number)
            await bare(number)
        loads = []
        for concurrency in (1, 8):
            loads.append(await _load("bare ingress", concurrency, requests, service, bare))
            loads.append(await _load("context", concurrency, requests, service, context))
        return loads


async def _prepare_user(client: httpx.AsyncClient, key: str, entries: int) -> str:
    bearer = {"Authorization": f"Bearer {key}"}
    opened = (await client.post("/v1/sessions", json={"user_id": "bench"}, headers=bearer)).raise_for_status().json()
    body = {
        "user_id": "bench",
        "mode": "verbatim",
        "memories": [{"content": text} for text in memories(entries)],
    }
    (await client.post("/v1/memories", json=body, headers=bearer)).raise_for_status()
    talk = [
        {"role": "user" if number % 2 == 0 else "assistant", "content": text}
        for number, text in enumerate(questions(20))
    ]
    session = opened["session_id"]
    (await client.post(f"/v1/sessions/{session}/turns", json={"turns": talk}, headers=bearer)).raise_for_status()
    await asyncio.sleep(15.0)  # the Curator indexes the import; it must not be measured with the calls
    return str(opened["token"])


def floor(entries: int, rounds: int) -> tuple[float, float]:
    """(bare encoding of one question, exact search of the user's vectors), p50 in milliseconds, one thread."""
    encoder = Encoder.load(EncoderSettings())
    encoder.warm_up()
    vectors = np.random.default_rng(7).standard_normal((entries, encoder.card.dimension)).astype(np.float32)
    encodes, searches = [], []
    for question in questions(rounds + 8)[8:]:
        start = time.perf_counter()
        pooled = encoder.encode_queries([question])[0].pooled
        middle = time.perf_counter()
        np.argpartition(vectors @ pooled, -min(50, entries))
        encodes.append(middle - start)
        searches.append(time.perf_counter() - middle)
    return statistics.median(encodes) * 1e3, statistics.median(searches) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=300)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--port", type=int, help="a free one where left out")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    encode_ms, search_ms = floor(arguments.entries, min(arguments.requests, 200))
    with Service(arguments.port) as service:
        loads = asyncio.run(measure(service, arguments.entries, arguments.requests))
    by = {(load.name, load.concurrency): load for load in loads}
    table = Table("load", "c", "p50 ms", "p95 ms", "req/s", "CPU ms/req", title="POST /v1/context")
    for load in loads:
        figures = (f"{load.p50:.1f}", f"{load.p95:.1f}", f"{load.per_second:.0f}", f"{load.cpu:.1f}")
        table.add_row(load.name, str(load.concurrency), *figures)
    console = Console()
    console.print(table)
    lowest = by["bare ingress", 1].p50 + encode_ms + search_ms
    console.print(
        f"floor at c=1: bare ingress {by['bare ingress', 1].p50:.1f} + encode {encode_ms:.1f} + exact search {search_ms:.2f}"
        f" = {lowest:.1f} ms; ours {by['context', 1].p50:.1f} ms; ratio [bold]{by['context', 1].p50 / lowest:.2f}[/bold]"
    )
    possible = 1000 / encode_ms
    console.print(
        f"at c=8: {by['context', 8].per_second:.0f} requests/s; one encoder alone could do {possible:.0f}/s;"
        f" share [bold]{by['context', 8].per_second / possible:.2f}[/bold]"
    )
    if arguments.json:
        figures = {
            "floor_ms": lowest,
            "encode_ms": encode_ms,
            "search_ms": search_ms,
            "loads": [asdict(x) for x in loads],
        }
        arguments.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
