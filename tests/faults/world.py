"""Where a fault is made: the stores of one Strata, named so that any process can open them."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deployments.curation.workers import Workers
from deployments.edge.apps import context_app, memory_app
from deployments.settings import CuratorSettings, StoreSettings
from tests.end_to_end import harness
from tests.faults import model

REQUEST_S = 10.0
"""A request's deadline: with the margin it is how long a dead process's claim of an Idempotency-Key stands."""


@dataclass(frozen=True, slots=True)
class Place:
    """`model` is a prepared model's folder. `options` are further settings of the stores."""

    home: Path
    model: Path
    records_url: str = "embedded"
    sessions_url: str = "bundled"
    index: Any = "local"
    options: tuple[tuple[str, Any], ...] = ()


WORKERS = CuratorSettings(poll_s=0.05, lease_s=1.0, grace_s=0.2, batch=16, sweep_s=0.1, sweep_rest_s=0.5)
"""Short: what a dead worker held is taken over at once, and a deletion is verified while a test waits."""


SWEEPS = 10
"""Steps of a sweeper that are enough for a few tenants, each compared to its end and rested."""


@dataclass
class World:
    """A Strata with the workers that keep its stores equal, stepped by hand."""

    strata: harness.Strata
    workers: Workers

    async def work(self) -> bool:
        """One pass of the Curator and the Eraser. True where more may wait."""
        curated = await self.workers.curator.step()
        return await self.workers.eraser.step() or curated

    async def sweep(self) -> None:
        """Every tenant compared to its end, and partitions of strangers dropped: those need to be seen twice."""
        for _ in range(SWEEPS):
            await self.workers.sweeper.step()


def store_settings(place: Place) -> StoreSettings:
    """As the harness makes them."""
    stores = {"records_url": place.records_url, "sessions_url": place.sessions_url, "index": place.index}
    return StoreSettings(home=place.home, **{"deadlines": harness.PATIENT, **stores, **dict(place.options)})


@asynccontextmanager
async def opened(place: Place, workers: CuratorSettings = WORKERS) -> AsyncIterator[World]:
    """All of Strata in this process, on these stores."""
    embedder: Any = model.load(place.model)
    stores = {"records_url": place.records_url, "sessions_url": place.sessions_url, "index": place.index}
    try:
        async with harness.strata(place.home, embedder, **stores, **dict(place.options)) as strata:
            strata.memory, strata.context = memory_app(REQUEST_S), context_app(REQUEST_S)
            for app in (strata.memory, strata.context):
                app.state.services = strata.services
            yield World(strata, Workers(fresh("worker"), strata.services, workers))
    finally:
        await embedder.close()


def fresh(prefix: str) -> str:
    """An id that nobody else uses."""
    return f"{prefix}-{uuid.uuid4().hex[:12]}"
