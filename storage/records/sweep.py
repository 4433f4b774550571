"""What the sweeper reads and marks: a tenant's rows, whoever's they are."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, and_, select

from memory.ids import MemoryId, UserId
from memory.scope import Grant, Scope
from storage.protocols import SweptRow
from storage.records.base import OnDatabase
from storage.records.marks import mark_rows
from storage.records.rows import chunks
from storage.records.schema import dirty, memories

_m = memories.c
_SWEPT = select(_m.id, _m.user_id, _m.version, _m.deleted_at, dirty.c.phase).outerjoin(
    dirty, and_(dirty.c.tenant_id == _m.tenant_id, dirty.c.memory_id == _m.id)
)


class Sweep(OnDatabase):
    async def rows_after(self, scope: Scope, after: MemoryId | None, limit: int) -> list[SweptRow]:
        """Of scope's tenant, tombstones included, in ascending order of ids compared byte for byte: the sweeper's walk."""
        scope.require(Grant.SYSTEM)
        query = _SWEPT.where(_m.tenant_id == scope.tenant_id).order_by(_m.id).limit(limit)
        if after is not None:
            query = query.where(_m.id > after)
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        return [_swept(tuple(row)) for row in rows]

    async def rows_of(self, scope: Scope, ids: Sequence[MemoryId]) -> list[SweptRow]:
        """Those of `ids` that have a row in scope's tenant, in no order."""
        scope.require(Grant.SYSTEM)
        asked = set(ids)

        def work(connection: Connection) -> list[SweptRow]:
            found: list[SweptRow] = []
            for piece in chunks(ids):
                rows = connection.execute(_SWEPT.where(_m.tenant_id == scope.tenant_id, _m.id.in_(piece)))
                found += [_swept(tuple(row)) for row in rows if row.id in asked]
            return found

        return await self._database.read(work) if ids else []

    async def mark(self, scope: Scope, ids: Sequence[MemoryId]) -> int:
        """Make the entries of scope's tenant dirty again, whoever's they are: a tombstone, too, is applied and verified once more.
        What waits already keeps the time since when it does. Returns how many there were."""
        scope.require(Grant.SYSTEM)
        now = self._now()
        asked = set(ids)

        def work(connection: Connection) -> int:
            there: list[tuple[str, str]] = []
            for piece in chunks(ids):
                rows = select(_m.id, _m.user_id).where(_m.tenant_id == scope.tenant_id, _m.id.in_(piece))
                there += [(row.id, row.user_id) for row in connection.execute(rows) if row.id in asked]
            mark_rows(connection, scope.tenant_id, there, now)
            return len(there)

        return await self._database.write(work) if ids else 0


def _swept(row: Sequence[Any]) -> SweptRow:
    memory_id, user_id, version, deleted_at, phase = row
    return SweptRow(MemoryId(memory_id), UserId(user_id), version, deleted_at is None, phase is not None)
