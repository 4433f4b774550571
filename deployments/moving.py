"""Moving a tenant of a shared index between a shard and a collection of its own, while Strata goes on reading and writing it.

Where it stands is in the records: whoever is cut off begins again and goes on there.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from memory.ids import TenantId
from memory.policy import Isolation
from memory.scope import Scope, system_scope
from storage.protocols import Placement, PlacementStore

Watch = Callable[[str, int, int], None]
"""(stage, entries copied, entries in all; 0: not known)."""


class PlacedIndex(Protocol):
    """What a move needs of an index that has places (storage/index/weaviate)."""

    async def count(self, scope: Scope, ref: None) -> int: ...

    async def ensure_place(self, scope: Scope, place: str) -> None: ...

    async def copy_tenant(self, scope: Scope, source: str, target: str, progress: Callable[[int], None]) -> int: ...

    async def drop_place(self, scope: Scope, place: str) -> None: ...

    async def places_of(self, scope: Scope) -> set[str]: ...


async def move(
    store: PlacementStore,
    index: PlacedIndex,
    model_key: str,
    tenant_id: TenantId,
    target: Isolation,
    settle_s: float,
    watch: Watch,
) -> bool:
    """`settle_s`: when every replica has learnt of a step for certain, and what it was writing has ended. False where the tenant is there
    already."""
    scope, to = system_scope(tenant_id), target.value
    away = (Isolation.SHARD if target is Isolation.COLLECTION else Isolation.COLLECTION).value
    found = (await store.placements(system_scope(), model_key)).get(tenant_id, Placement(Isolation.SHARD.value))

    async def step(stage: str, placement: Placement) -> None:
        watch(stage, 0, 0)
        await store.place(scope, model_key, placement)
        await asyncio.sleep(settle_s)

    if found.place == to and found.moving_to is None:
        if away not in await index.places_of(scope):
            return False
        watch("dropping the old place", 0, 0)  # a move that was cut off at its end
        await index.drop_place(scope, away)
        return True
    if found.place != to:
        await index.ensure_place(scope, to)
        await step("writing to both places", Placement(away, to))
        total, copied = await index.count(scope, None), 0

        def heard(entries: int) -> None:
            nonlocal copied
            copied += entries
            watch("copying", copied, max(copied, total))

        await index.copy_tenant(scope, away, to, heard)
        await step("reading from the new place", Placement(to, away))
    await step("leaving the old place", Placement(to))
    await index.drop_place(scope, away)
    return True
