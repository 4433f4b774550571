"""The join of a search's hits to the truth: what it does not bring does not exist."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Connection, Select, and_, desc, select, union

from memory.encoding import PackedTokens
from memory.entry import Status
from memory.ids import MemoryId
from memory.late import PER_BYTE
from memory.scope import Scope
from storage.protocols import Filters, RecalledRow
from storage.records.base import OnDatabase, owned
from storage.records.rows import FIELDS, among, chunks, columns, filter_terms, ids_where, live, to_memory, unsearched
from storage.records.schema import dirty, memories, memory_tokens

_PREDECESSOR = memories.alias("predecessor")
_JOINED = select(
    *columns(memories),
    memory_tokens.c.tokens,
    memory_tokens.c.dimension,
    dirty.c.phase,
    *columns(_PREDECESSOR, "predecessor_"),
)


def newest_unindexed(scope: Scope, conditions: Sequence[ColumnElement[bool]], limit: int) -> Select[Any]:
    """Ids of the newest entries under `conditions` whose present wording waits for the index. Last changed counts as newest: until
    it is indexed again, a corrected entry is as invisible to a search as a new one."""
    inner = (
        select(memories.c.id)
        .select_from(dirty)
        .join(memories, and_(memories.c.tenant_id == dirty.c.tenant_id, memories.c.id == dirty.c.memory_id))
        # From the few that wait to their rows, not from all of the user's rows to the few that wait.
        .where(owned(dirty, scope), unsearched(memories.c.user_id) == dirty.c.user_id, dirty.c.phase == "apply")
        .where(memories.c.deleted_at.is_(None), *conditions)
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
        order. Active ones, unless the filters name a status or a time. One statement (per 5,000 ids)."""
        conditions = filter_terms(scope, filters, default=Status.ACTIVE)
        pieces = chunks(ids)
        first: list[Select[Any]] = [newest_unindexed(scope, conditions, unindexed)] if unindexed > 0 else []
        if not pieces and not first:
            return []

        def work(connection: Connection) -> list[RecalledRow]:
            found: dict[str, RecalledRow] = {}
            for number, piece in enumerate(pieces or [[]]):
                wanted = first if number == 0 else []
                if piece:
                    wanted = [*wanted, ids_where(and_(among(scope, piece), *conditions))]
                for row in connection.execute(_joined(scope, wanted, model_key)):
                    recalled = _recalled(row)
                    found[recalled.memory.id] = recalled
            return list(found.values())

        return await self._database.read(work)


def _joined(scope: Scope, wanted: Sequence[Select[Any]], model_key: str) -> Select[Any]:
    chosen = (union(*wanted) if len(wanted) > 1 else wanted[0]).subquery("chosen")
    m, t, p = memories.c, memory_tokens.c, _PREDECESSOR.c
    return (
        _JOINED.select_from(chosen)
        .join(memories, and_(live(scope), m.id == chosen.c.id))
        .outerjoin(
            memory_tokens,
            and_(owned(memory_tokens, scope), t.memory_id == m.id, t.model_key == model_key, t.version == m.version),
        )
        .outerjoin(dirty, and_(owned(dirty, scope), dirty.c.memory_id == m.id))
        .outerjoin(
            _PREDECESSOR, and_(live(scope, _PREDECESSOR), p.id == m.supersedes, p.status == Status.OUTDATED.value)
        )
    )


def _recalled(row: Any) -> RecalledRow:
    width = len(FIELDS)
    tokens, dimension, phase = row[width : width + 3]
    before = row[width + 3 :]
    return RecalledRow(
        to_memory(row[:width]),
        None if tokens is None else unpacked(tokens, dimension),
        phase == "apply",
        to_memory(before) if before[0] is not None else None,
    )


def unpacked(blob: bytes, dimension: int) -> PackedTokens:
    """uint8 [tokens, dimension / 4] from its bytes."""
    return np.frombuffer(blob, dtype=np.uint8).reshape(-1, dimension // PER_BYTE)
