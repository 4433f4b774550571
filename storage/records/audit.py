"""The audit (I2): appended, never changed; ids and actions, never content."""

import secrets
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, insert

from memory.errors import NotFound
from memory.scope import Grant, Scope
from storage.protocols import AuditEvent, Receipt
from storage.records.base import OnDatabase, same_id
from storage.records.receipts import RECEIPTS, to_receipt
from storage.records.schema import audit, receipts


def append_audit(connection: Connection, scope: Scope, events: Sequence[AuditEvent]) -> None:
    """One row for each entry that an event names; one row for an event that names none."""
    rows: list[dict[str, Any]] = []
    for event in events:
        event_id = secrets.token_hex(16)
        rows += [
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
    if rows:
        connection.execute(insert(audit), rows)


class Audit(OnDatabase):
    async def audit(self, scope: Scope, events: Sequence[AuditEvent]) -> None:
        """All of `events`, or none."""
        if events:
            await self._database.write(lambda connection: append_audit(connection, scope, events))

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
