"""Marking entries dirty, within the transaction that changed them."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, insert, select, update

from memory.scope import Scope
from storage.records.base import fresh_mark, owned, owner
from storage.records.rows import chunks
from storage.records.schema import dirty


def mark_dirty(connection: Connection, scope: Scope, ids: Sequence[str], now: datetime, new: bool = False) -> None:
    """One row an entry, however often it changed. A holder's lease stays, so that nobody else starts on it in between, but its
    mark is worth nothing any more. `new`: the entries were inserted just now, so none has a row yet."""
    tenant_id, user_id = owner(scope)
    mark = fresh_mark()
    for piece in chunks(ids):
        waiting: set[str] = set()
        if not new:
            among = (owned(dirty, scope), dirty.c.memory_id.in_(piece))
            waiting = set(connection.scalars(select(dirty.c.memory_id).where(*among).with_for_update()))
            if waiting:
                connection.execute(update(dirty).where(*among).values(mark=mark, phase="apply", due_at=now, attempts=0))
        rows = [
            {
                "tenant_id": tenant_id,
                "user_id": user_id,
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
        if rows:
            connection.execute(insert(dirty), rows)
