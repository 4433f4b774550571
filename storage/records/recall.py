"""The join of a search's hits to the truth: what it does not bring does not exist."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection, Select, and_, desc, select, union

from memory.encoding import PackedTokens
from memory.entry import Status
from memory.ids import MemoryId
from memory.late import PER_BYTE
from memory.scope import Scope
from storage.protocols import Filters, RecalledRow
from storage.records.base import OnDatabase, owned
from storage.records.rows import FIELDS, chunks, columns, ids_where, live, matching, to_memory
from storage.records.schema import dirty, memories, memory_tokens

_PREDECESSOR = memories.alias("predecessor")


def newest_unindexed(scope: Scope, condition: Any, limit: int) -> Select[Any]:
    """Ids of the newest entries under `condition` whose present wording waits for the index. Last changed counts as newest: until
    it is indexed again, a corrected entry is as invisible to a search as a new one."""
    inner = (
        select(memories.c.id)
        .join(dirty, and_(dirty.c.tenant_id == memories.c.tenant_id, dirty.c.memory_id == memories.c.id))
        .where(condition, owned(dirty, scope), dirty.c.phase == "apply")
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
        condition = matching(scope, filters, default=Status.ACTIVE)
        pieces = chunks(ids)
        first: list[Select[Any]] = [newest_unindexed(scope, condition, unindexed)] if unindexed > 0 else []
        if not pieces and not first:
            return []

        def work(connection: Connection) -> list[RecalledRow]:
            found: dict[str, RecalledRow] = {}
            for number, piece in enumerate(pieces or [[]]):
                wanted = first if number == 0 else []
                if piece:
                    wanted = [*wanted, ids_where(and_(condition, memories.c.id.in_(piece)))]
                for row in connection.execute(_joined(scope, wanted, model_key)):
                    recalled = _recalled(row)
                    found[recalled.memory.id] = recalled
            return list(found.values())

        return await self._database.read(work)


def _joined(scope: Scope, wanted: Sequence[Select[Any]], model_key: str) -> Select[Any]:
    chosen = (union(*wanted) if len(wanted) > 1 else wanted[0]).subquery("chosen")
    m, t, p = memories.c, memory_tokens.c, _PREDECESSOR.c
    return (
        select(*columns(memories), t.tokens, t.dimension, dirty.c.phase, *columns(_PREDECESSOR, "predecessor_"))
        .select_from(chosen)
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
