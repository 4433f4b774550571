"""Where each tenant's entries lie in a shared index, in memory: read at the start, then refreshed by a poll."""

from memory.ids import TenantId
from memory.scope import system_scope
from storage.protocols import Placement, PlacementStore

SHARD = Placement("shard")
"""Where a tenant is that was never placed."""


class Placements:
    """Bounded by the number of tenants that were ever moved."""

    def __init__(self, store: PlacementStore, model_key: str) -> None:
        self._store, self._model_key = store, model_key
        self._known: dict[TenantId, Placement] = {}

    def of(self, tenant_id: TenantId) -> Placement:
        """As of the last refresh."""
        return self._known.get(tenant_id, SHARD)

    async def refresh(self) -> None:
        self._known = await self._store.placements(system_scope(), self._model_key)
