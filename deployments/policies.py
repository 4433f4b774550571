"""Tenants' policies, in memory: read once, then refreshed by a poll of their versions. Never read on the hot path."""

import contextlib
from collections.abc import Callable

from deployments.telemetry.metrics import CacheCount
from memory.errors import NotFound
from memory.ids import TenantId
from memory.policy import Policy
from memory.scope import system_scope
from storage.protocols import TenantRecord, TenantStore

_count = CacheCount("policy")


class PolicyCache:
    """Bounded by the number of tenants in the store. A change is seen at the next `refresh`; while the store is away the last
    known policy goes on holding."""

    def __init__(self, tenants: TenantStore) -> None:
        self._tenants = tenants
        self._known: dict[TenantId, tuple[TenantRecord, Policy]] = {}
        self._changed: list[Callable[[TenantId], None]] = []

    def on_change(self, callback: Callable[[TenantId], None]) -> None:
        """`callback(tenant_id)` whenever a known tenant changed or went: caches of what belongs to it forget it."""
        self._changed.append(callback)

    async def tenant(self, tenant_id: TenantId) -> tuple[TenantRecord, Policy]:
        """NotFound("tenant") where there is none."""
        known = self._known.get(tenant_id)
        _count(known is not None)
        if known is None:
            record = await self._tenants.tenant(system_scope(), tenant_id)
            known = self._known[tenant_id] = (record, Policy.model_validate(record.policy))
        return known

    async def refresh(self) -> None:
        """One look at the versions; what changed is read again, what is gone is forgotten."""
        versions = await self._tenants.versions(system_scope())
        for tenant_id, (record, _) in list(self._known.items()):
            if versions.get(tenant_id) == record.version:
                continue
            del self._known[tenant_id]
            for callback in self._changed:
                callback(tenant_id)
            if tenant_id in versions:
                with contextlib.suppress(NotFound):
                    await self.tenant(tenant_id)
