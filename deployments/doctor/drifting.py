"""Whether index and records agree, entry by entry: a sample of every tenant, or all of it."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from random import Random

from deployments.doctor.findings import Finding, bad, ok
from memory.drift import Drift, RowState, drifts
from memory.ids import MemoryId, TenantId
from memory.scope import Scope, system_scope
from storage.index.blind import BlindIndex
from storage.protocols import Records

PAGE = 500
SAMPLE = 5_000
"""Entries at most, without --full."""
_SAID = {
    Drift.MISSING: "not in the index",
    Drift.STALE: "in the index in an earlier version",
    Drift.AHEAD: "in the index in a later version",
    Drift.UNDEAD: "deleted, and nobody is on it",
    Drift.ORPHAN: "in the index without a row",
}


class Comparison:
    """One index against the records. What differs is looked at a second time: both sides move."""

    def __init__(self, records: Records, index: BlindIndex, answering: bool) -> None:
        self._records, self._index, self._answering = records, index, answering
        self.looked = 0
        self.found: Counter[Drift] = Counter()

    async def tenant(self, tenant_id: TenantId, full: bool) -> None:
        """Both ways: the first page of each, or all."""
        scope = system_scope(tenant_id)
        async for ids in self._indexed(scope):
            await self._compare(scope, ids)
            if not full:
                break
        async for ids in self._recorded(scope):
            await self._compare(scope, ids)
            if not full:
                break

    async def _indexed(self, scope: Scope) -> AsyncIterator[list[MemoryId]]:
        cursor = None
        while True:
            page = await self._index.walk(scope, cursor, PAGE)
            yield [memory_id for memory_id, _ in page.entries]
            cursor = page.next_cursor
            if cursor is None:
                return

    async def _recorded(self, scope: Scope) -> AsyncIterator[list[MemoryId]]:
        after = None
        while rows := await self._records.rows_after(scope, after, PAGE):
            after = rows[-1].id
            yield [row.id for row in rows]

    async def _compare(self, scope: Scope, ids: Sequence[MemoryId]) -> None:
        self.looked += len(ids)
        first = await self._drifts(scope, ids)
        if first:
            second = await self._drifts(scope, list(first))
            self.found.update(kind for one, kind in second.items() if first.get(one) is kind)

    async def _drifts(self, scope: Scope, ids: Sequence[MemoryId]) -> dict[MemoryId, Drift]:
        indexed = await self._index.versions(scope, ids)
        rows = await self._records.rows_of(scope, ids)
        states = {row.id: RowState(row.version, row.live, row.waiting) for row in rows}
        return drifts(states, indexed, self._answering)


async def drift(
    records: Records, index: BlindIndex, part: str, tenants: Sequence[TenantId], answering: bool, full: bool
) -> list[Finding]:
    """Of one version's index; `tenants` are those that live. Also partitions of tenants that the records do not have."""
    comparison = Comparison(records, index, answering)
    strangers = await index.tenants(system_scope()) - set(tenants)
    order = Random(0).sample(tenants, len(tenants))  # noqa: S311 - which tenants are looked at first, no secret
    for tenant_id in order:
        if not full and comparison.looked >= SAMPLE:
            break
        await comparison.tenant(tenant_id, full)
    looked = f"{comparison.looked} looked at" + ("" if full else " (a sample; --full looks at all)")
    found = [
        bad(
            part,
            f"{count} entries {_SAID[kind]}; {looked}",
            "the Sweeper of a running Strata mends it; look again later",
        )
        for kind, count in sorted(comparison.found.items())
    ]
    if strangers:
        fix = "the Sweeper of a running Strata drops them; if they stay, look at what else uses this index"
        found.append(bad(part, f"{len(strangers)} partitions of tenants that are not in the records", fix))
    return found or [ok(part, f"index and records agree: {looked}")]
