"""Each store unreachable, slow (2 s a call), stalled and back, under traffic: reads degrade within their deadline and say which part is
missing, writes are accepted only when SQL has them, everything works again within 10 s without a restart, and not one acknowledged
write is lost. The faults are made on the wire, in front of real servers (Weaviate: real where STRATA_TEST_WEAVIATE names one).
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from httpx import URL

from deployments.settings import Deadlines
from memory.policy import MergePolicy, Policy
from storage.index.weaviate.settings import WeaviateSettings
from tests.end_to_end import tiers
from tests.faults import stories
from tests.faults.audit import audit
from tests.faults.places import own_collections, own_database
from tests.faults.relay import Fault, Relay, through, upstream_of
from tests.faults.traffic import Answer, Client, clients, under
from tests.faults.world import REQUEST_S, Place, World, fresh, opened

DEADLINES = Deadlines(sessions_s=1.0, records_s=1.5, index_s=1.0, embed_s=10.0, request_s=REQUEST_S)
SLACK_S = 8.0
"""Of a machine that is busy with other tests."""
RECOVERED_S = 10.0
FAULT_S = 2.0
PATIENCE_S = 60.0
KINDS = {"context", "search", "write", "turn"}
SEED = 20261130


@dataclass
class Wires:
    """One Strata whose stores are reached by relays."""

    world: World
    tenant: Any
    clients: list[Client]
    probe: Client
    relays: dict[str, list[Relay]]


@pytest.fixture(scope="module")
def weaviate() -> Iterator[str]:
    with tiers.weaviate_server() as address:
        yield address


@pytest.fixture(scope="module")
def upstreams(mariadb: str, redis_server: str, weaviate: str) -> Iterator[tuple[str, str, WeaviateSettings]]:
    """A database and collections of this module's own, and the sessions' server."""
    with own_database(mariadb) as records_url, own_collections(weaviate) as collections:
        assert isinstance(collections, WeaviateSettings)
        yield records_url, redis_server, collections


@pytest.fixture
async def wires(upstreams: tuple[str, str, WeaviateSettings], tiny: Path, home: Path) -> AsyncIterator[Wires]:
    async with _through_relays(home, tiny, *upstreams) as wires:
        yield wires


@asynccontextmanager
async def _through_relays(
    home: Path, model: Path, records_url: str, sessions_url: str, index: WeaviateSettings
) -> AsyncIterator[Wires]:
    async with AsyncExitStack() as stack:
        records = await stack.enter_async_context(Relay(upstream_of(records_url)))
        sessions = await stack.enter_async_context(Relay(upstream_of(sessions_url)))
        rest = await stack.enter_async_context(Relay(f"{URL(index.http).host}:{URL(index.http).port}"))
        grpc = await stack.enter_async_context(Relay(index.grpc))
        place = Place(
            home,
            model,
            through(records, records_url),
            through(sessions, sessions_url),
            index.model_copy(update={"http": f"http://{rest.address}", "grpc": grpc.address}),
            (("deadlines", DEADLINES),),
        )
        world = await stack.enter_async_context(opened(place))
        tenant = await world.strata.tenant(fresh("t"), Policy(merge=MergePolicy(same_fact=1.0)), stories.GRANTS)
        probe, *traffic = await clients(world.strata, tenant, 4, SEED)
        yield Wires(
            world, tenant, traffic, probe, {"records": [records], "sessions": [sessions], "index": [rest, grpc]}
        )


def _in_the_fault(kind: str, store: str, answer: Answer) -> bool:
    """Whether this is what may be answered while `store` is away."""
    match store, kind:
        case "sessions", "context" | "turn" | "write":
            return answer.status in (503, 504)
        case "sessions", _:
            return answer.status in (200, 503, 504)
        case "records", "write":
            return answer.status in (503, 504)
        case "records" | "index", "context" | "search":
            return answer.status == 200 and store in (answer.degraded or ())
    return answer.status in (200, 409)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", ["index", "records", "sessions"])
async def test_p37_an_outage_under_traffic_degrades_loses_nothing_and_is_over_when_it_is_over(wires: Wires, store: str):
    windows: list[tuple[Fault, float, float]] = []
    async with under(wires.clients):
        await _recovered(wires)
        for fault in (Fault.UNREACHABLE, Fault.SLOW, Fault.STALLED):
            began = time.monotonic()
            for relay in wires.relays[store]:
                await relay.fault(fault)
            await asyncio.sleep(FAULT_S)
            windows.append((fault, began, time.monotonic()))
            for relay in wires.relays[store]:
                await relay.fault(Fault.NONE)
            assert await _recovered(wires) < RECOVERED_S
    answers = [answer for client in wires.clients for answer in client.answers]
    for fault, began, ended in windows:
        inside = [answer for answer in answers if answer.began > began and answer.ended < ended]
        wrong = [answer for answer in inside if not _in_the_fault(answer.kind, store, answer)]
        assert not wrong, (fault, wrong)
    assert {answer.status for answer in answers} <= {200, 409, 503, 504}
    late = [answer for answer in answers if answer.seconds > REQUEST_S + SLACK_S]
    assert not late, late
    await _nothing_lost(wires)


async def _lived_through(wires: Wires, since: float) -> None:
    """Until the fault has lasted a while, and each kind of call was asked and answered in it."""
    until = since + PATIENCE_S
    while True:
        await asyncio.sleep(0.1)
        now = time.monotonic()
        inside = {a.kind for client in wires.clients for a in client.answers if a.began > since and a.ended < now}
        if now > since + FAULT_S and inside >= KINDS:
            return
        assert now < until, inside


async def _recovered(wires: Wires) -> float:
    """Seconds until a client that is no part of the traffic reads whole and writes."""
    began = time.monotonic()
    probe = wires.probe
    while True:
        read = await probe.context()
        if read.status == 200 and not read.degraded:
            write = await probe.write(fresh("k"), fresh("probe content"))
            if write.status == 200:
                return time.monotonic() - began
        assert time.monotonic() - began < RECOVERED_S + SLACK_S, read
        await asyncio.sleep(0.1)


async def _nothing_lost(wires: Wires) -> None:
    everybody = [wires.probe, *wires.clients]
    for client in everybody:
        await client.finish()
    await stories.drain(wires.world)
    found = await audit(wires.world.strata, wires.tenant.id)
    assert not found.faults
    for client in everybody:
        assert sorted(found.contents[client.user]) == sorted(client.acknowledged)
        kept, cursor = [], None
        while True:
            query = {"limit": 100} if cursor is None else {"limit": 100, "cursor": cursor}
            page = await client.talk.call("GET", f"/v1/sessions/{client.talk.id}/turns", params=query)
            kept += [turn["id"] for turn in page["items"]]
            if (cursor := page["next_cursor"]) is None:
                break
        assert set(client.turns) <= set(kept)
