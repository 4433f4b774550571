"""The `dirty` table: which entries the index has yet to learn about, who is on it, and until when (design: write path)."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, cast

import numpy as np
from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, or_, select, tuple_, update

from memory.analysis import is_of, kept
from memory.encoding import PackedTokens
from memory.entry import Memory
from memory.errors import InvalidInput
from memory.ids import MemoryId, TenantId, UserId
from memory.late import PER_BYTE
from memory.scope import NO_TENANT, Grant, Scope, system_scope
from storage.protocols import Backlog, DirtyItem
from storage.records.base import OnDatabase, owned, owner
from storage.records.rows import columns, live, to_memory
from storage.records.schema import dirty, erasures, memories, memory_tokens, receipts, tenants

_CANDIDATES = 4
"""How many times more rows than asked for are looked at: some are locked by other workers in this very moment."""


class DirtyQueue(OnDatabase):
    _scrubbed_before: datetime | None = None

    async def claim_dirty(
        self, scope: Scope, worker: str, limit: int, lease_s: float, now: datetime
    ) -> list[DirtyItem]:
        """Up to `limit` entries that are due and nobody's, held by `worker` until now + lease_s. With system_scope() of any tenant,
        else of scope's alone. Users take turns, and what has failed comes after what has not: neither one user's import nor
        a poisonous entry holds up the others (P12, P39). Those of a tenant that is being erased are nobody's: its index goes
        whole, its rows go by `erase_rows`."""
        scope.require(Grant.SYSTEM)
        free = and_(dirty.c.due_at <= now, or_(dirty.c.lease_until.is_(None), dirty.c.lease_until <= now))
        if scope.tenant_id != NO_TENANT:
            free = and_(free, dirty.c.tenant_id == scope.tenant_id)

        def work(connection: Connection) -> list[DirtyItem]:
            rows = _lock_due(connection, free, limit)
            if not rows:
                return []
            keys = [(row.tenant_id, row.memory_id) for row in rows]
            connection.execute(
                update(dirty)
                .where(tuple_(dirty.c.tenant_id, dirty.c.memory_id).in_(keys))
                .values(owner=worker, lease_until=now + timedelta(seconds=lease_s))
            )
            return _items(connection, rows, keys)

        return await self._database.write(work) if limit > 0 else []

    async def store_tokens(
        self, scope: Scope, memory_id: MemoryId, model_key: str, version: int, tokens: PackedTokens
    ) -> bool:
        """Beside the row. False, and nothing stored, where the row is gone or has another version by now.

        `tokens` is uint8 [tokens, dimension / 4], sealed."""
        scope.require(Grant.SYSTEM)
        if tokens.dtype != np.uint8 or tokens.ndim != 2 or tokens.shape[1] == 0:
            raise InvalidInput("tokens", "pass packed token vectors: uint8 [tokens, dimension / 4]")
        now = self._now()
        tenant_id, user_id = owner(scope)
        key = {"tenant_id": tenant_id, "memory_id": memory_id, "model_key": model_key}
        beside = and_(
            owned(memory_tokens, scope), memory_tokens.c.memory_id == memory_id, memory_tokens.c.model_key == model_key
        )
        values = {
            "version": version,
            "dimension": tokens.shape[1] * PER_BYTE,
            "tokens": np.ascontiguousarray(tokens).tobytes(),
            "stored_at": now,
        }

        def work(connection: Connection) -> bool:
            row = select(memories.c.id).where(live(scope), memories.c.id == memory_id, memories.c.version == version)
            if connection.execute(row.with_for_update()).first() is None:
                return False
            if connection.execute(update(memory_tokens).where(beside).values(values)).rowcount == 0:
                connection.execute(insert(memory_tokens).values(user_id=user_id, **key, **values))
            return True

        return await self._database.write(work)

    async def finish_dirty(self, scope: Scope, item: DirtyItem, worker: str, verify_at: datetime | None) -> bool:
        """Done with `item`: False where it changed meanwhile (it stays dirty). With `verify_at` it moves on to phase `verify`, due
        then; a verified deletion removes the tombstone, and completes the receipt that waited for it.

        A deletion is never finished unverified, and not before its bytes are out of the database's own log; until then False.
        """
        scope.require(Grant.SYSTEM)
        now = self._now()
        if item.memory is None and item.phase == "verify" and verify_at is None and not await self._scrubbed(item):
            return False
        key = _key(item)

        def work(connection: Connection) -> bool:
            row = connection.execute(select(dirty).where(*key).with_for_update()).first()
            if row is None or row.owner != worker:
                return False
            if row.mark != item.mark:
                connection.execute(update(dirty).where(*key).values(owner=None, lease_until=None))
                return False
            dead = select(memories.c.receipt_id).where(*_row(item), memories.c.deleted_at.is_not(None))
            tombstone = connection.execute(dead.with_for_update()).first()
            unverified = tombstone is not None and item.phase == "apply"
            if verify_at is not None or unverified:
                connection.execute(
                    update(dirty)
                    .where(*key)
                    .values(phase="verify", due_at=verify_at or row.due_at, owner=None, lease_until=None, attempts=0)
                )
                return verify_at is not None
            connection.execute(delete(dirty).where(*key))
            if tombstone is not None:
                connection.execute(delete(memories).where(*_row(item)))
                _count_down(connection, item, tombstone.receipt_id, now)
            return True

        return await self._database.write(work)

    async def fail_dirty(self, scope: Scope, item: DirtyItem, worker: str, retry_at: datetime) -> None:
        """Given back, due again at `retry_at`. What changed meanwhile is due at once: it may well succeed. Retries never end (what
        was written while the embedder was away is indexed when it is back, P37), so the caller's delays must grow to a cap."""
        scope.require(Grant.SYSTEM)
        same = dirty.c.mark == item.mark
        mine = (*_key(item), dirty.c.owner == worker)
        back: dict[str, Any] = {"owner": None, "lease_until": None}

        def work(connection: Connection) -> None:
            connection.execute(
                update(dirty).where(*mine, same).values(due_at=retry_at, attempts=dirty.c.attempts + 1, **back)
            )
            connection.execute(update(dirty).where(*mine).values(**back))

        await self._database.write(work)

    async def backlog(self, scope: Scope) -> Backlog:
        """Entries that wait, deletions to be verified included, and orders of erasure: of scope's tenant, or of all with system_scope()."""
        scope.require(Grant.SYSTEM)
        pending = select(func.count()).select_from(erasures)
        if scope.tenant_id != NO_TENANT:
            pending = pending.where(erasures.c.tenant_id == scope.tenant_id)
        query = select(func.count(), func.min(dirty.c.since), pending.scalar_subquery()).select_from(dirty)
        if scope.tenant_id != NO_TENANT:
            query = query.where(dirty.c.tenant_id == scope.tenant_id)
        entries, oldest, orders = await self._database.read(lambda connection: tuple(connection.execute(query).one()))
        return Backlog(entries, oldest, orders)

    async def _scrubbed(self, item: DirtyItem) -> bool:
        """Whether the log was cut since the entry's content was taken out. One cut serves all that was deleted before it."""
        query = select(memories.c.deleted_at).where(*_row(item))
        deleted_at = await self._database.read(lambda connection: connection.scalar(query))
        if deleted_at is None or (self._scrubbed_before is not None and deleted_at < self._scrubbed_before):
            return True
        before = self._now()
        if not await self._database.scrub():
            return False
        self._scrubbed_before = before
        return True


def _key(item: DirtyItem) -> tuple[ColumnElement[bool], ...]:
    return (owned(dirty, item.scope), dirty.c.memory_id == item.memory_id)


def _row(item: DirtyItem) -> tuple[ColumnElement[bool], ...]:
    return (owned(memories, item.scope), memories.c.id == item.memory_id)


def _lock_due(connection: Connection, free: ColumnElement[bool], limit: int) -> Sequence[Any]:
    d = dirty.c
    turn = func.row_number().over(partition_by=(d.tenant_id, d.user_id), order_by=(d.attempts, d.due_at, d.memory_id))
    fenced = select(tenants.c.id).where(tenants.c.erasing_at.is_not(None))
    due = (
        select(d.tenant_id, d.memory_id, d.attempts, d.due_at, turn.label("turn"))
        .where(free, d.tenant_id.not_in(fenced))
        .subquery("due")
    )
    candidates = (
        select(due.c.tenant_id, due.c.memory_id)
        .order_by(due.c.turn, due.c.attempts, due.c.due_at, due.c.memory_id)
        .limit(limit * _CANDIDATES)
    )
    keys = [tuple(row) for row in connection.execute(candidates)]
    rows: list[Any] = []
    for start in range(0, len(keys), limit):
        # A window and a lock do not go into one statement; the condition is asked again under the lock.
        wanted = keys[start : start + limit]
        locked = select(dirty).where(tuple_(d.tenant_id, d.memory_id).in_(wanted), free)
        rows += connection.execute(locked.with_for_update(skip_locked=True)).all()
        if len(rows) >= limit:
            break
    return rows[:limit]


def _items(connection: Connection, rows: Sequence[Any], keys: Sequence[tuple[str, str]]) -> list[DirtyItem]:
    m, t = memories.c, memory_tokens.c
    found: dict[tuple[str, str], tuple[Memory, str | None]] = {}
    query = (
        select(m.tenant_id, t.model_key, m.analysis, *columns(memories))
        .outerjoin(
            memory_tokens,
            and_(t.tenant_id == m.tenant_id, t.user_id == m.user_id, t.memory_id == m.id, t.version == m.version),
        )
        .where(tuple_(m.tenant_id, m.id).in_(keys), m.deleted_at.is_(None))
        .order_by(t.stored_at)  # the model that came last is the one in use
    )
    for tenant_id, key, line, *values in connection.execute(query).all():
        entry = to_memory(values)
        found[tenant_id, entry.id] = entry, key
        if not is_of(line, entry.content, entry.subject):  # an earlier release's entry, or by the rules of one
            this = and_(m.tenant_id == tenant_id, m.user_id == entry.user_id, m.id == entry.id)
            connection.execute(update(memories).where(this).values(analysis=kept(entry.content, entry.subject)))
    items = []
    for row in rows:
        memory, model_key = found.get((row.tenant_id, row.memory_id)) or (None, None)
        scope = system_scope(TenantId(row.tenant_id), UserId(row.user_id))
        phase = cast(Literal["apply", "verify"], row.phase)
        items.append(DirtyItem(scope, MemoryId(row.memory_id), row.mark, phase, memory, row.attempts, model_key))
    return items


def _count_down(connection: Connection, item: DirtyItem, receipt_id: str | None, now: datetime) -> None:
    if receipt_id is None:
        return
    r = receipts.c
    this = (owned(receipts, item.scope), r.id == receipt_id)
    connection.execute(update(receipts).where(*this).values(pending=r.pending - 1))
    connection.execute(update(receipts).where(*this, r.pending == 0).values(completed_at=now))
