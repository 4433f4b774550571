"""`python -m benchmarks.context`: what a context call costs, beside its floor in the same run.

    python -m benchmarks.context [--topology split|fused] [--requests 400] [--json FILE]

Ours: p50, throughput and CPU of POST /v1/context on a freshly started Strata (embedded tier) at concurrency 1, 8 and 32, for a user
with a few hundred memories and a session of twenty turns, questions in Chinese and English that were not asked before.

The floor is what no implementation on this machine could go below with the same model. At concurrency 1: a bare request to the same
ingress (GET /healthz), plus the bare encoding of one question, plus an exact search of the user's vectors. At 32: what one encoder
alone, one question after another, does in a second.
"""

import argparse
import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.load.users import indexed
from benchmarks.phrases import memories, questions
from benchmarks.report import Row, tell
from benchmarks.service import Service
from deployments.settings import Topology
from models.encoder import Encoder
from models.settings import EncoderSettings

CONCURRENCY = (1, 8, 32)
P50_GOAL = 2.0
"""Times the floor, at concurrency 1."""
SHARE_GOAL = 0.6
"""Of what the encoder alone could do, at concurrency 32."""
AT_ONCE = 50
"""Memories imported in one call."""


@dataclass(frozen=True)
class Load:
    """One measured load: milliseconds, requests a second, milliseconds of CPU a request over all of Strata's processes."""

    name: str
    concurrency: int
    p50: float
    p95: float
    per_second: float
    cpu: float


@dataclass(frozen=True)
class Floor:
    """p50 in milliseconds, one thread: the bare encoding of one question, an exact search of the user's vectors."""

    encode: float
    search: float


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
    return Load(name, concurrency, statistics.median(times) * 1e3, p95 * 1e3, requests / wall, cpu / requests * 1e3)


async def measure(service: Service, entries: int, requests: int) -> list[Load]:
    connector = aiohttp.TCPConnector(limit=max(CONCURRENCY))
    async with aiohttp.ClientSession(service.url, connector=connector, raise_for_status=True) as http:
        token = await _prepare_user(http, service.key, entries)
        asked = iter(questions(len(CONCURRENCY) * requests + 64)[20:])

        async def context(_: int) -> None:
            body = {"query": next(asked), "budget_tokens": 2000}
            answer = await _post(http, "/v1/context", token, body)
            if answer["degraded"]:
                raise RuntimeError(f"not a whole context, without {answer['degraded']}: nothing to compare")

        async def bare(_: int) -> None:
            async with http.get("/healthz") as answer:
                await answer.read()

        for number in range(32):
            await context(number)
            await bare(number)
        loads = []
        for concurrency in CONCURRENCY:
            loads.append(await _load("bare ingress", concurrency, requests, service, bare))
            loads.append(await _load("context", concurrency, requests, service, context))
        return loads


async def _post(http: aiohttp.ClientSession, path: str, credential: str, body: Any) -> Any:
    async with http.post(path, json=body, headers={"Authorization": f"Bearer {credential}"}) as answer:
        return await answer.json()


async def _prepare_user(http: aiohttp.ClientSession, key: str, entries: int) -> str:
    opened = await _post(http, "/v1/sessions", key, {"user_id": "bench"})
    known = [{"content": text} for text in memories(entries)]
    for start in range(0, entries, AT_ONCE):
        body = {"user_id": "bench", "mode": "verbatim", "memories": known[start : start + AT_ONCE]}
        await _post(http, "/v1/memories", key, body)
    talk = [
        {"role": "user" if number % 2 == 0 else "assistant", "content": text}
        for number, text in enumerate(questions(20))
    ]
    await _post(http, f"/v1/sessions/{opened['session_id']}/turns", key, {"turns": talk})
    await indexed(http)
    return str(opened["token"])


def floor(entries: int, rounds: int) -> Floor:
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
    return Floor(statistics.median(encodes) * 1e3, statistics.median(searches) * 1e3)


def rows_of(loads: Sequence[Load], lowest: Floor) -> list[Row]:
    """The two goals first, then the figures behind them."""
    by = {(load.name, load.concurrency): load for load in loads}
    one, many = by["context", 1], by["context", 32]
    below = by["bare ingress", 1].p50 + lowest.encode + lowest.search
    rows = [
        Row("context p50, 1 caller", one.p50, "ms", "ingress + encode + exact search", below, P50_GOAL, better="lower"),
        Row(
            "context throughput, 32 callers",
            many.per_second,
            "/s",
            "one encoder alone",
            1e3 / lowest.encode,
            SHARE_GOAL,
        ),
    ]
    for load in loads:
        rows.append(Row(f"{load.name} p95, {load.concurrency} callers", load.p95, "ms"))
        rows.append(Row(f"{load.name} CPU, {load.concurrency} callers", load.cpu, "ms/request"))
    return rows


def rows(entries: int = 300, requests: int = 400, topology: Topology = "split", port: int | None = None) -> list[Row]:
    lowest = floor(entries, min(requests, 200))
    with Service(port, topology=topology, edit=_patient) as service:
        loads = asyncio.run(measure(service, entries, requests))
    _show(loads, lowest, topology)
    return rows_of(loads, lowest)


def _patient(config: Any) -> None:
    """Every question waits for its vectors. As configured, those that would wait too long are answered from keywords, which costs half."""
    config["applications"][0]["args"]["embedder"]["max_wait_s"] = 60


def _show(loads: Sequence[Load], lowest: Floor, topology: Topology) -> None:
    table = Table("load", "c", "p50 ms", "p95 ms", "req/s", "CPU ms/req", title=f"POST /v1/context, {topology}")
    for load in loads:
        figures = (f"{load.p50:.1f}", f"{load.p95:.1f}", f"{load.per_second:.0f}", f"{load.cpu:.1f}")
        table.add_row(load.name, str(load.concurrency), *figures)
    Console().print(table, f"encode {lowest.encode:.1f} ms, exact search {lowest.search:.2f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=300)
    parser.add_argument("--requests", type=int, default=400, help="at each concurrency")
    parser.add_argument("--topology", choices=("split", "fused"), default="split")
    parser.add_argument("--port", type=int, help="a free one where left out")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    found = rows(given.entries, given.requests, given.topology, given.port)
    tell(found, f"Context, {given.topology}", given.json)


if __name__ == "__main__":
    main()
