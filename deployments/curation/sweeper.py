"""The Sweeper: compares indexes and records, both ways, in bounded steps, and heals what came apart (P26, P37).

It is the net under the Curator: what a worker that slept for minutes wrote after its entry was verified gone, what a restored
backup brought back or lost, a partition that somebody dropped. The rule is memory/drift.py's; what it finds is looked at a
second time before anything is done, because both sides move while they are compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

import structlog

from deployments.services import Services
from deployments.settings import CuratorSettings
from deployments.telemetry.metrics import PARTITION, healed, observe_backlog
from memory.drift import Drift, RowState, drifts
from memory.errors import NotFound, StrataError
from memory.ids import MemoryId, TenantId
from memory.scope import Scope, system_scope
from storage.index.blind import BlindIndex
from storage.protocols import SweptRow

log = structlog.get_logger(__name__)

VISIT = 10
"""What looking at a tenant costs at least, in entries."""


@dataclass
class _Walk:
    """How far one tenant was compared: in each index by its cursor (absent: not begun), in the records by the last id."""

    cursors: dict[BlindIndex, str | None] = field(default_factory=dict)
    done: set[BlindIndex] = field(default_factory=set)
    after: MemoryId | None = None
    rows_done: bool = False


class Sweeper:
    """Any number may run: what each does may be done twice. A tenant that was compared to its end rests for `sweep_rest_s`: looking
    wakes an index that sleeps."""

    def __init__(self, services: Services, settings: CuratorSettings) -> None:
        self._svc, self._settings = services, settings
        self._walks: dict[TenantId, _Walk] = {}
        self._rested: dict[TenantId, datetime] = {}
        self._turn: list[TenantId] = []
        self._suspects: set[TenantId] = set()
        self._jitter = Random(id(self))  # noqa: S311 - spreads work, no secret

    async def step(self) -> bool:
        """About `sweep_page` entries of each side, of as many tenants as that takes. Never True: the rest between steps is what
        keeps this in the background."""
        if self._svc.retired():
            return False  # what its own index lacks by now is no drift
        observe_backlog(await self._svc.records.backlog(system_scope()), self._svc.clock())
        if self._svc.retired():
            return False  # this replica's index is no longer written: it lacks what is new, and nobody asks it
        if not self._turn:
            await self._begin_round()
        room = self._settings.sweep_page
        while room > 0 and self._turn:
            tenant_id = self._turn.pop()
            try:
                room -= max(VISIT, await self._tenant(tenant_id))
            except StrataError as error:
                log.warning("sweep_put_off", kind=error.slug)
                room -= VISIT
        return False

    async def _begin_round(self) -> None:
        """Which tenants are due, and the partitions of those that are gone."""
        listed = {tenant.id: tenant for tenant in await self._svc.tenants.tenants(system_scope())}
        now = self._svc.clock()
        self._walks = {tenant_id: walk for tenant_id, walk in self._walks.items() if tenant_id in listed}
        self._rested = {tenant_id: until for tenant_id, until in self._rested.items() if tenant_id in listed}
        due = [
            tenant_id
            for tenant_id, tenant in listed.items()
            if not tenant.erasing and not (tenant_id in self._rested and now < self._rested[tenant_id])
        ]
        self._turn = self._jitter.sample(due, len(due))
        await self._drop_strangers(set(listed))

    async def _drop_strangers(self, known: set[TenantId]) -> None:
        """A partition whose tenant the records do not have goes, once two rounds saw it so. Records without any tenant are more
        likely the wrong ones than the truth: then nothing is dropped."""
        strangers: set[TenantId] = set()
        for index in self._indexes():
            strangers |= await index.tenants(system_scope()) - known
        if not known:
            return
        doomed, self._suspects = strangers & self._suspects, strangers
        for tenant_id in doomed:
            try:
                await self._svc.tenants.tenant(system_scope(), tenant_id)
                continue
            except NotFound:
                pass
            for index in self._indexes():
                await index.drop_tenant(system_scope(tenant_id))
            healed(PARTITION)
            log.warning("sweep_healed", what=PARTITION, count=1)

    def _indexes(self) -> tuple[BlindIndex, ...]:
        return (self._svc.index, *self._svc.others())

    async def _tenant(self, tenant_id: TenantId) -> int:
        """One page of each side of this tenant. Answers how many entries were looked at."""
        scope, walk, page = (
            system_scope(tenant_id),
            self._walks.setdefault(tenant_id, _Walk()),
            self._settings.sweep_page,
        )
        looked = 0
        for index in self._indexes():
            if index in walk.done:
                continue
            found = await index.walk(scope, walk.cursors.get(index), page)
            await self._compare(scope, index, [memory_id for memory_id, _ in found.entries])
            walk.cursors[index] = found.next_cursor
            if found.next_cursor is None:
                walk.done.add(index)
            looked += len(found.entries)
        if not walk.rows_done:
            rows = await self._svc.records.rows_after(scope, walk.after, page)
            await self._compare(scope, self._svc.index, [row.id for row in rows])
            if rows:
                walk.after = rows[-1].id
            walk.rows_done = len(rows) < page
            looked += len(rows)
        if walk.rows_done and walk.done >= set(self._indexes()):
            del self._walks[tenant_id]
            rest = self._settings.sweep_rest_s * (0.75 + self._jitter.random() / 2)
            self._rested[tenant_id] = self._svc.clock() + timedelta(seconds=rest)
        return looked

    async def _compare(self, scope: Scope, index: BlindIndex, ids: Sequence[MemoryId]) -> None:
        """Both sides of these entries; then once more of those that seem to have drifted, and only what has drifted in the same way
        twice is healed. The index is read first: a row that is written meanwhile then waits for it, and is no drift."""
        first = await self._drifts(scope, index, ids)
        if not first:
            return
        second = await self._drifts(scope, index, list(first))
        certain = {one: kind for one, kind in second.items() if first.get(one) is kind}
        removed = [one for one, kind in certain.items() if kind.removes]
        marked = [one for one, kind in certain.items() if kind.marks]
        if removed:
            await index.remove(scope, removed)
        # Also the removed: an entry that was written again under its id in this very moment is brought back.
        await self._svc.records.mark(scope, list(dict.fromkeys([*marked, *removed])))
        for kind in Drift:
            count = sum(1 for one in certain.values() if one is kind)
            if count:
                healed(kind, count)
                log.warning("sweep_healed", what=kind.value, count=count)
        if marked:
            self._svc.wake_curator()

    async def _drifts(self, scope: Scope, index: BlindIndex, ids: Sequence[MemoryId]) -> dict[MemoryId, Drift]:
        indexed = await index.versions(scope, ids)
        rows = {row.id: _state(row) for row in await self._svc.records.rows_of(scope, ids)}
        return drifts(rows, indexed, answering=index is self._svc.index)


def _state(row: SweptRow) -> RowState:
    return RowState(row.version, row.live, row.waiting)
