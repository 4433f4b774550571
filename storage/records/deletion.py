"""Forgetting for good (L10): what an entry said goes at once; its empty row waits until the index has verified absence."""

import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection, and_, delete, insert, select, update

from memory.entry import Status
from memory.errors import NotFound
from memory.ids import MemoryId, time_ordered_id
from memory.scope import Scope
from storage.protocols import AuditEvent, Receipt
from storage.records.audit import append_audit
from storage.records.base import OnDatabase, lock_user, owned, owner
from storage.records.marks import mark_dirty
from storage.records.receipts import deletion_reports
from storage.records.rows import among, chunks, live
from storage.records.schema import memories, memory_entities, memory_tokens, memory_turns, receipts, revisions

_EMPTIED = (
    "content",
    "language",
    "subject",
    "value",
    "entities",
    "session_id",
    "turn_ids",
    "context_turn_ids",
    "valid_from",
    "valid_to",
    "supersedes",
    "metadata",
    "subject_digest",
    "sort_digest",
    "fingerprint_digest",
    "analysis",
)


class Deletion(OnDatabase):
    async def delete(self, scope: Scope, ids: Sequence[MemoryId] | None, audit: AuditEvent) -> Receipt:
        """L10: content, history and token vectors go at once; the row stays as a tombstone without content until the index has
        verified absence. None: every entry of scope.user. An id that is not the user's: NotFound("memory"), nothing deleted.

        What an entry replaced goes with it: the outdated wording of a fact that is to be forgotten is that fact too. The
        receipt counts these, and the audit names them.
        """
        now = self._now()

        def work(connection: Connection) -> Receipt:
            lock_user(connection, scope, now)
            gone = _named(connection, scope, ids)
            receipt_id = time_ordered_id("rcp", audit.at, secrets.token_bytes(10))
            completed = None if gone else now
            tenant_id, user_id = owner(scope)
            connection.execute(
                insert(receipts).values(
                    tenant_id=tenant_id,
                    id=receipt_id,
                    user_id=user_id,
                    action=audit.action,
                    count=len(gone),
                    pending=len(gone),
                    requested_at=audit.at,
                    records_at=now,
                    completed_at=completed,
                )
            )
            bury(connection, scope, gone, now, receipt_id)
            append_audit(connection, scope, [replace(audit, memory_ids=tuple(map(MemoryId, gone)))])
            stores = deletion_reports(len(gone), now, completed)
            return Receipt(receipt_id, audit.action, len(gone), audit.at, completed, stores, scope.user)

        return await self._database.write(work)


def _named(connection: Connection, scope: Scope, ids: Sequence[str] | None) -> list[str]:
    """The entries to forget, with all that they replaced."""
    m = memories.c
    if ids is None:
        return list(connection.scalars(select(m.id).where(live(scope)).order_by(m.id)))
    found: list[str] = []
    for piece in chunks(ids):
        there = set(connection.scalars(select(m.id).where(among(scope, piece))))
        if there != set(piece):
            raise NotFound("memory")
        found += piece
    return found + _replaced_by(connection, scope, found)


def _replaced_by(connection: Connection, scope: Scope, ids: Sequence[str]) -> list[str]:
    """The outdated entries that these replaced, those that those replaced, and so on."""
    chain = memories.alias("chain")
    seen = set(ids)
    older: list[str] = []
    for piece in chunks(ids):
        start = select(memories.c.supersedes.label("id")).where(among(scope, piece), memories.c.supersedes.is_not(None))
        reached = start.cte("reached", recursive=True)
        further = select(chain.c.supersedes).join(reached, and_(live(scope, chain), chain.c.id == reached.c.id))
        reached = reached.union(further.where(chain.c.supersedes.is_not(None), chain.c.status == Status.OUTDATED.value))
        query = (
            select(memories.c.id)
            .join(reached, reached.c.id == memories.c.id)
            .where(live(scope), memories.c.status == Status.OUTDATED.value)
        )
        for memory_id in connection.scalars(query):
            if memory_id not in seen:
                seen.add(memory_id)
                older.append(memory_id)
    return older


def bury(connection: Connection, scope: Scope, ids: Sequence[str], now: datetime, receipt_id: str | None) -> None:
    """Turn live entries into tombstones: nothing that they said, were found by or came from remains. Those that replaced one of
    them let go of its id."""
    m = memories.c
    for piece in chunks(ids):
        connection.execute(
            update(memories)
            .where(among(scope, piece))
            .values(**dict.fromkeys(_EMPTIED), deleted_at=now, updated_at=now, receipt_id=receipt_id)
        )
        connection.execute(update(memories).where(live(scope), m.supersedes.in_(piece)).values(supersedes=None))
        for table in (memory_tokens, memory_entities, memory_turns, revisions):
            connection.execute(delete(table).where(owned(table, scope), table.c.memory_id.in_(piece)))
    mark_dirty(connection, scope, ids, now)
