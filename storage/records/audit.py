"""The audit (I2): appended, never changed; ids and actions, never content."""

import secrets
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, case, insert, or_, update

from memory.errors import NotFound
from memory.ids import MemoryId, TenantId, UserId
from memory.scope import Grant, Scope
from storage.protocols import AuditEvent, Read, Receipt
from storage.records.base import OnDatabase, same_id
from storage.records.receipts import RECEIPTS, to_receipt
from storage.records.rows import among, chunks
from storage.records.schema import audit, memories, receipts


def append_audit(connection: Connection, scope: Scope, events: Sequence[AuditEvent]) -> None:
    """One row for each entry that an event names; one row for an event that names none."""
    rows = [row for event in events for row in _rows(scope, event)]
    if rows:
        connection.execute(insert(audit), rows)


def _rows(scope: Scope, event: AuditEvent) -> list[dict[str, Any]]:
    event_id = secrets.token_hex(16)
    return [
        {
            "tenant_id": scope.tenant_id,
            "user_id": scope.user_id,
            "event_id": event_id,
            "at": event.at,
            "action": event.action,
            "actor": event.actor,
            "memory_id": memory_id,
            "session_id": event.session_id,
            "reason": event.reason,
        }
        for memory_id in event.memory_ids or (None,)
    ]


def count_access(connection: Connection, scope: Scope, ids: Sequence[MemoryId], at: datetime, times: int = 1) -> None:
    """scope.user's entries among `ids` were read so often, the last time then."""
    m = memories.c
    later = case((or_(m.last_access_at.is_(None), m.last_access_at < at), at), else_=m.last_access_at)
    for piece in chunks(ids):
        connection.execute(
            update(memories)
            .where(among(scope, piece))
            .values(access_count=m.access_count + times, last_access_at=later)
        )


class Audit(OnDatabase):
    async def audit(self, scope: Scope, events: Sequence[AuditEvent]) -> None:
        """All of `events`, or none."""
        if events:
            await self._database.write(lambda connection: append_audit(connection, scope, events))

    async def note_reads(self, scope: Scope, reads: Sequence[Read]) -> None:
        """Access counts and audit of many reads, whoever's, in one transaction. Needs Grant.SYSTEM: each read names its own scope.
        What is gone by then is audited all the same."""
        scope.require(Grant.SYSTEM)
        last: dict[tuple[TenantId, UserId], datetime] = {}
        times: dict[tuple[TenantId, UserId], Counter[MemoryId]] = defaultdict(Counter)
        for read in reads:
            whose = (read.scope.tenant_id, read.scope.user)
            times[whose].update(set(read.event.memory_ids))
            last[whose] = max(last.get(whose, read.event.at), read.event.at)
        lines = [row for read in reads for row in _rows(read.scope, read.event)]

        def work(connection: Connection) -> None:
            for whose in sorted(times):  # always in one order, so that no two of these wait for each other
                for many, ids in _by_count(times[whose]):
                    count_access(connection, Scope(*whose), ids, last[whose], many)
            if lines:
                connection.execute(insert(audit), lines)

        if lines:
            await self._database.write(work)

    async def receipt(self, scope: Scope, receipt_id: str) -> Receipt:
        """NotFound("receipt") where there is none of this tenant's (and user's, where the scope has one). A scope without a user
        sees every receipt of its tenant: Grant.ADMIN or Grant.SYSTEM."""
        r = receipts.c
        query = RECEIPTS.where(r.tenant_id == scope.tenant_id, r.id == receipt_id)
        if scope.user_id is not None:
            query = query.where(r.user_id == scope.user_id)
        elif Grant.SYSTEM not in scope.grants:
            scope.require(Grant.ADMIN)
        row = await self._database.read(lambda connection: connection.execute(query).first())
        if row is None or not same_id(row.id, receipt_id) or not same_id(row.tenant_id, scope.tenant_id):
            raise NotFound("receipt")
        return to_receipt(row)


def _by_count(times: Counter[MemoryId]) -> list[tuple[int, list[MemoryId]]]:
    groups: dict[int, list[MemoryId]] = defaultdict(list)
    for memory_id in sorted(times):
        groups[times[memory_id]].append(memory_id)
    return sorted(groups.items())
