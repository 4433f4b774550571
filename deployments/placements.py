"""Where each tenant's entries lie in a shared index: in memory, read at the start and then refreshed by a poll."""

from memory.ids import TenantId
from memory.policy import Isolation, Policy
from memory.scope import system_scope
from storage.protocols import Placement, PlacementStore, TenantStore

SHARD = Placement(Isolation.SHARD.value)
"""Where a tenant is that was never placed."""


class Placements:
    """Bounded by the number of tenants that were ever moved."""

    def __init__(self, store: PlacementStore, model_key: str) -> None:
        self._store, self._model_key = store, model_key
        self._known: dict[TenantId, Placement] = {}

    def of(self, tenant_id: TenantId) -> Placement:
        """As of the last refresh."""
        return self._known.get(tenant_id, SHARD)

    def placed(self, tenant_id: TenantId) -> bool:
        """Whether it ever was placed."""
        return tenant_id in self._known

    async def refresh(self) -> None:
        self._known = await self._store.placements(system_scope(), self._model_key)


async def place_as_wanted(store: PlacementStore, tenants: TenantStore, model_key: str) -> None:
    """For an index that holds nothing yet: each tenant that was never placed in it goes where its policy wants it."""
    known = await store.placements(system_scope(), model_key)
    for tenant in await tenants.tenants(system_scope()):
        wanted = Policy.model_validate(tenant.policy).isolation
        if wanted is not Isolation.SHARD and tenant.id not in known:
            await store.place(system_scope(tenant.id), model_key, Placement(wanted.value))
