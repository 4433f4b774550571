"""A reindex that is killed, what goes on meanwhile, and what the new index holds at the end: each in a process of its own."""

import random
from dataclasses import dataclass
from pathlib import Path

from deployments.cli.reindex import _reindex
from deployments.indexes import open_index, remove_index
from deployments.reindexing import drop, unwatched
from deployments.stores import open_stores
from memory.policy import MergePolicy, Policy
from memory.scope import system_scope
from models.settings import EncoderSettings
from storage.protocols import IndexVersion, VersionState
from tests.end_to_end.harness import Tenant
from tests.faults import stories
from tests.faults.audit import Audit, compared
from tests.faults.load import fact
from tests.faults.steps import Steps
from tests.faults.world import Place, opened, store_settings

USERS = ("wei", "ann")
ENTRIES = 3


@dataclass(frozen=True, slots=True)
class Shop:
    tenant: str
    key: str


async def declare(place: Place, tenant: str) -> Shop:
    """A tenant with entries of two users, all of them indexed by the model that is in use."""
    stories.quiet()
    async with opened(place) as world:
        policy = Policy(merge=MergePolicy(same_fact=1.0))
        shop = await world.strata.tenant(tenant, policy, stories.GRANTS)
        for user in USERS:
            for number in range(ENTRIES):
                await _write(shop, user, random.Random(f"{user} {number}"))
        await stories.drain(world)
        return Shop(tenant, shop.key)


async def live(place: Place, shop: Shop, seed: int) -> None:
    """Each user writes one entry, corrects one and deletes one; the workers do their part."""
    stories.quiet()
    dice = random.Random(seed)
    async with opened(place) as world:
        tenant = Tenant(world.strata, shop.tenant, shop.key)
        for user in USERS:
            await _write(tenant, user, dice)
            listed = (await tenant.call("GET", "/v1/memories", params={"user_id": user})).json()["items"]
            corrected, deleted = dice.sample([item["id"] for item in listed], 2)
            body = {"user_id": user, "content": fact(dice)}
            assert (await tenant.call("PATCH", f"/v1/memories/{corrected}", json=body)).status_code == 200
            gone = await tenant.call("DELETE", f"/v1/memories/{deleted}", params={"user_id": user})
            assert gone.status_code == 202
        await stories.drain(world)


async def _write(tenant: Tenant, user: str, dice: random.Random) -> None:
    body = {"user_id": user, "memories": [{"content": fact(dice)}], "mode": "verbatim"}
    assert (await tenant.call("POST", "/v1/memories", json=body)).status_code == 200


async def reindex(place: Place, model: Path, at: str | None = None) -> list[str]:
    """What `strata reindex` runs; killed at step `at`. Returns the steps that it took."""
    stories.quiet()
    steps = Steps(at).install()
    steps.armed = True
    settings = EncoderSettings(folder=model, dtype="float32")
    await _reindex(store_settings(place), settings, model, unwatched)
    return steps.seen


async def finished(place: Place, model_key: str, tenant: str) -> tuple[Audit, VersionState]:
    """The new version, compared; then it is dropped, and nothing of it is left."""
    settings = store_settings(place)
    async with open_stores(settings) as stores:
        listed = {version.model_key: version for version in await stores.versions.versions(system_scope())}
        version: IndexVersion = listed[model_key]
        opened_index = await open_index(settings, stores.versions, stores.keys, model_key, version.dimension)
        found = await compared(stores.database, opened_index.index, model_key, tenant)
        await drop(stores.versions, opened_index.index, model_key)
        await remove_index(settings, opened_index)
        left = {version.model_key for version in await stores.versions.versions(system_scope())}
        assert model_key not in left
        return found, version.state
