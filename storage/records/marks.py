"""Marking entries dirty, within the transaction that changed them."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, insert, select, update

from memory.scope import Scope
from storage.records.base import fresh_mark, owner
from storage.records.rows import chunks
from storage.records.schema import dirty


def mark_dirty(connection: Connection, scope: Scope, ids: Sequence[str], now: datetime, new: bool = False) -> None:
    """scope.user's entries. `new`: they were inserted just now, so none has a mark yet."""
    tenant_id, user_id = owner(scope)
    mark_rows(connection, tenant_id, [(memory_id, user_id) for memory_id in ids], now, new)


def mark_rows(
    connection: Connection, tenant_id: str, rows: Sequence[tuple[str, str]], now: datetime, new: bool = False
) -> None:
    """(entry, user) of one tenant. One row an entry, however often it changed. A holder's lease stays, so that nobody else starts
    on it in between, but its mark is worth nothing any more."""
    users = dict(rows)
    mark = fresh_mark()
    for piece in chunks(list(users)):
        waiting: set[str] = set()
        if not new:
            among = (dirty.c.tenant_id == tenant_id, dirty.c.memory_id.in_(piece))
            waiting = set(connection.scalars(select(dirty.c.memory_id).where(*among).with_for_update()))
            if waiting:
                connection.execute(update(dirty).where(*among).values(mark=mark, phase="apply", due_at=now, attempts=0))
        fresh = [
            {
                "tenant_id": tenant_id,
                "user_id": users[memory_id],
                "memory_id": memory_id,
                "mark": mark,
                "phase": "apply",
                "since": now,
                "due_at": now,
                "attempts": 0,
            }
            for memory_id in piece
            if memory_id not in waiting
        ]
        if fresh:
            connection.execute(insert(dirty), fresh)
