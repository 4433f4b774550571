"""The join of a search's hits to the truth: what it does not bring does not exist."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Connection, Integer, Select, and_, bindparam, desc, select, union

from memory.analysis import read
from memory.encoding import PackedTokens
from memory.entry import Kind, Memory, Status
from memory.ids import MemoryId
from memory.late import PER_BYTE
from memory.scope import Scope
from storage.protocols import Filters, RecalledRow
from storage.records.base import OnDatabase, owner
from storage.records.rows import ENTRIES, FIELDS, among, chunks, columns, filter_terms, row_terms, to_memory, unsearched
from storage.records.schema import dirty, memories, memory_tokens
from storage.records.types import ID

_JOINED = select(
    *columns(memories), memories.c.analysis, memory_tokens.c.tokens, memory_tokens.c.dimension, dirty.c.phase
)
_WIDTH = len(FIELDS)
_TENANT, _USER = bindparam("tenant", type_=ID), bindparam("user", type_=ID)
_IDS, _MODEL, _NEWEST = (
    bindparam("ids", type_=ID, expanding=True),
    bindparam("model", type_=ID),
    bindparam("newest", type_=Integer),
)


def newest_unindexed(scope: Scope, conditions: Sequence[ColumnElement[bool]], limit: int) -> Select[Any]:
    """Ids of the newest entries under `conditions` whose present wording waits for the index. Last changed counts as newest: until
    it is indexed again, a corrected entry is as invisible to a search as a new one."""
    return _newest(*owner(scope), conditions, limit)


def _newest(tenant: Any, user: Any, conditions: Sequence[ColumnElement[bool]], limit: Any) -> Select[Any]:
    inner = (
        select(memories.c.id)
        .select_from(dirty)
        .join(memories, and_(memories.c.tenant_id == dirty.c.tenant_id, memories.c.id == dirty.c.memory_id))
        # From the few that wait to their rows, not from all of the user's rows to the few that wait.
        .where(dirty.c.tenant_id == tenant, dirty.c.user_id == user, unsearched(memories.c.user_id) == dirty.c.user_id)
        .where(dirty.c.phase == "apply", memories.c.deleted_at.is_(None), *conditions)
        .order_by(desc(memories.c.updated_at), desc(memories.c.id))
        .limit(limit)
        .subquery()  # MySQL takes no LIMIT in an arm of a UNION or IN that is not wrapped
    )
    return select(inner.c.id)


class Recall(OnDatabase):
    async def recall_rows(
        self, scope: Scope, ids: Sequence[MemoryId], filters: Filters, model_key: str, unindexed: int
    ) -> list[RecalledRow]:
        """The live rows among `ids` that pass `filters`, plus up to `unindexed` of the newest that still wait for the index, in no
        order. Active ones, unless the filters name a status or a time. One statement (per 5,000 ids), and one more where some of
        them replaced others."""
        pieces = chunks(ids)
        if not pieces and unindexed <= 0:
            return []
        tenant_id, user_id = owner(scope)
        values = {"tenant": tenant_id, "user": user_id, "model": model_key}

        def work(connection: Connection) -> list[RecalledRow]:
            found: dict[str, Any] = {}
            for number, piece in enumerate(pieces or [[]]):
                newest = unindexed if number == 0 else 0
                statement = _statement(scope, filters, newest > 0, bool(piece))
                asked = values | ({"newest": newest} if newest > 0 else {}) | ({"ids": piece} if piece else {})
                found.update((row[0], row) for row in connection.execute(statement, asked))
            return _recalled(connection, scope, list(found.values()))

        return await self._database.read(work)


def _statement(scope: Scope, filters: Filters, newest: bool, listed: bool) -> Select[Any]:
    """The usual ones are kept: a statement of thirty columns takes longer to build than SQLite takes to answer it."""
    if filters == Filters(kinds=filters.kinds, status=filters.status):
        return _usual(filters.kinds, filters.status, newest, listed)
    return _joined(filter_terms(scope, filters, default=Status.ACTIVE), newest, listed)


@lru_cache(maxsize=128)
def _usual(kinds: tuple[Kind, ...] | None, status: Status | None, newest: bool, listed: bool) -> Select[Any]:
    return _joined(row_terms(Filters(kinds=kinds, status=status), default=Status.ACTIVE), newest, listed)


def _joined(conditions: Sequence[ColumnElement[bool]], newest: bool, listed: bool) -> Select[Any]:
    """Whose rows, which ids, whose token vectors and how many of the newest are parameters."""
    m, t = memories.c, memory_tokens.c
    wanted = [_newest(_TENANT, _USER, conditions, _NEWEST)] if newest else []
    if listed:
        mine = (m.tenant_id == _TENANT, m.id.in_(_IDS), unsearched(m.user_id) == _USER, m.deleted_at.is_(None))
        wanted.append(select(m.id).where(*mine, *conditions))
    chosen = (union(*wanted) if len(wanted) > 1 else wanted[0]).subquery("chosen")
    return (
        _JOINED.select_from(chosen)
        .join(memories, and_(m.tenant_id == _TENANT, m.user_id == _USER, m.deleted_at.is_(None), m.id == chosen.c.id))
        .outerjoin(
            memory_tokens,
            and_(
                t.tenant_id == _TENANT,
                t.user_id == _USER,
                t.memory_id == m.id,
                t.model_key == _MODEL,
                t.version == m.version,
            ),
        )
        .outerjoin(dirty, and_(dirty.c.tenant_id == _TENANT, dirty.c.user_id == _USER, dirty.c.memory_id == m.id))
    )


def _recalled(connection: Connection, scope: Scope, rows: Sequence[Any]) -> list[RecalledRow]:
    entries = [to_memory(row[:_WIDTH]) for row in rows]
    replaced = _outdated(connection, scope, [memory.supersedes for memory in entries if memory.supersedes is not None])
    recalled = []
    for memory, row in zip(entries, rows, strict=True):
        line, tokens, dimension, phase = row[_WIDTH:]
        recalled.append(
            RecalledRow(
                memory,
                None if tokens is None else unpacked(tokens, dimension),
                phase == "apply",
                None if memory.supersedes is None else replaced.get(memory.supersedes),
                read(line, memory.content, memory.subject),
            )
        )
    return recalled


def _outdated(connection: Connection, scope: Scope, ids: Sequence[MemoryId]) -> dict[MemoryId, Memory]:
    found: dict[MemoryId, Memory] = {}
    for piece in chunks(ids):
        query = ENTRIES.where(among(scope, piece), unsearched(memories.c.status) == Status.OUTDATED.value)
        found.update((memory.id, memory) for memory in map(to_memory, connection.execute(query)))
    return found


def unpacked(blob: bytes, dimension: int) -> PackedTokens:
    """uint8 [tokens, dimension / 4] from its bytes."""
    return np.frombuffer(blob, dtype=np.uint8).reshape(-1, dimension // PER_BYTE)
