"""What a call costs in CPU, by process, and what the processes hold: on a Strata of its own (split topology), of either tier."""

import asyncio
import secrets
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import psutil

from benchmarks.capacity.servers import INDEX, RECORDS, server_process
from benchmarks.load.driving import Driver, connect
from benchmarks.load.phrases import KEPT_EVERY, Questions, known
from benchmarks.load.processes import SESSIONS, Watch, spent
from benchmarks.load.schedule import Call, Planned, Population, plan
from benchmarks.load.users import AT_ONCE, declare, indexed, populate, write
from benchmarks.service import Service

POPULATION = Population(tenants=4, users=6, sessions=1, skew=0.0)
ENTRIES = 100
"""Of each user: what is searched in."""
RATE = 6.0
"""Well below what two cores carry: a queue would put its own work into the figures."""
IMPORTED = 240

Kinds = dict[str, float]


@dataclass(frozen=True)
class Servers:
    """URLs of servers of one's own on this machine: with all three it is the production tier that is measured."""

    sessions: str
    records: str
    index: str
    """`http://host:port,grpc-port`"""
    collection: str = field(default_factory=lambda: f"StrataCost{secrets.token_hex(3)}")

    def configure(self, config: dict[str, Any]) -> None:
        """The Serve file with these in place of the embedded stores; URLs may hold passwords, so it has references to `environment`."""
        http, _, grpc_port = self.index.rpartition(",")
        index = {"http": http, "grpc": f"{urlsplit(http).hostname}:{grpc_port}", "collection": self.collection}
        for application in config["applications"]:
            if stores := application["args"].get("stores"):
                stores |= {name: f"env:STRATA_{name.upper()}" for name in ("sessions_url", "records_url")}
                stores["index"] = index

    @property
    def environment(self) -> dict[str, str]:
        return {"STRATA_SESSIONS_URL": self.sessions, "STRATA_RECORDS_URL": self.records}

    def processes(self) -> dict[str, psutil.Process]:
        """Those that run here, by kind."""
        urls = {SESSIONS: self.sessions, RECORDS: self.records, INDEX: self.index.rpartition(",")[0]}
        found = {kind: server_process(url) for kind, url in urls.items()}
        return {kind: process for kind, process in found.items() if process is not None}


def costs(seconds: float, say: Callable[[str], None], servers: Servers | None = None) -> dict[str, Any]:
    """`cpu_ms` by call and kind of process, of `seconds` of each call; `idle_ms_per_s`; `memory_mb` at the end."""
    changes: dict[str, Any] = {"edit": servers.configure, "environment": servers.environment} if servers else {}
    with tempfile.TemporaryDirectory(prefix="sc-") as folder, Service(**changes) as service:
        keys = declare(service, Path(folder) / "tenants", POPULATION.tenants)
        watch = Watch(service.home, servers.processes() if servers else {})
        return asyncio.run(_measured(service, watch, keys, seconds, say))


async def _measured(
    service: Service, watch: Watch, keys: list[str], seconds: float, say: Callable[[str], None]
) -> dict[str, Any]:
    async with connect(service.url) as http:
        say("users and their memories")
        slots = await populate(http, keys, POPULATION, ENTRIES)
        driver = Driver(http, slots, Questions(20_000))
        await driver.run(plan(RATE, 4, dict.fromkeys(Call, 1 / 3), POPULATION, 1))
        await indexed(http)
        say("idle")
        idle = await _idle(watch, seconds)
        cpu: dict[str, Kinds] = {}
        for name, call, numbered in (
            ("turn", Call.TURNS, _chatter),
            ("kept_turn", Call.TURNS, _statement),
            ("context", Call.CONTEXT, _as_it_is),
            ("search", Call.SEARCH, _as_it_is),
        ):
            say(name)
            planned = [numbered(one) for one in plan(RATE, seconds, {call: 1.0}, POPULATION, len(cpu) + 2)]
            driver.outcomes.clear()
            cpu[name] = await _cost(watch, http, idle, len(planned), partial(driver.run, iter(planned)))
            failed = [outcome.status for outcome in driver.outcomes if not outcome.answered]
            if failed or not planned:
                raise RuntimeError(f"{name}: {len(failed)} of {len(planned)} calls failed: {sorted(set(failed))}")
        say("entry")
        cpu["entry"] = await _cost(watch, http, idle, IMPORTED, partial(_import, http, keys[0]))
        memory = {kind: _rounded(asdict(each)) for kind, each in watch.memory().items()}
    return {"cpu_ms": cpu, "idle_ms_per_s": idle, "memory_mb": memory, "entries_per_user": ENTRIES, "rate": RATE}


async def _idle(watch: Watch, seconds: float) -> Kinds:
    """Milliseconds of CPU a second by kind, with nothing to do."""
    before, began = watch.cpu(), time.monotonic()
    await asyncio.sleep(seconds)
    used, wall = spent(before, watch.cpu()), time.monotonic() - began
    return {kind: round(1e3 * seconds / wall, 3) for kind, seconds in used.items()}


async def _cost(
    watch: Watch, http: aiohttp.ClientSession, idle: Kinds, calls: int, work: Callable[[], Awaitable[None]]
) -> Kinds:
    """Milliseconds of CPU a call by kind, over what the processes would have used anyway, until the index has it all."""
    before, began = watch.cpu(), time.monotonic()
    await work()
    await indexed(http)
    used, wall = spent(before, watch.cpu()), time.monotonic() - began
    extra = {kind: max(0.0, 1e3 * seconds - idle.get(kind, 0.0) * wall) for kind, seconds in used.items()}
    return {kind: round(ms / calls, 3) for kind, ms in extra.items()}


async def _import(http: aiohttp.ClientSession, key: str) -> None:
    texts = known(10_000, IMPORTED)
    for start in range(0, IMPORTED, AT_ONCE):
        part = [{"content": text} for text in texts[start : start + AT_ONCE]]
        await write(http, "/v1/memories", key, {"user_id": "import", "mode": "verbatim", "memories": part})


def _rounded(sizes: dict[str, Any]) -> dict[str, Any]:
    return {name: round(size, 1) for name, size in sizes.items()}


def _chatter(one: Planned) -> Planned:
    return replace(one, number=one.number * KEPT_EVERY + 1 + one.number % (KEPT_EVERY - 1))


def _statement(one: Planned) -> Planned:
    return replace(one, number=one.number * KEPT_EVERY)


def _as_it_is(one: Planned) -> Planned:
    return one
