"""Between rows and entries, and what each filter means in SQL."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, FromClause, Select, and_, exists, false, func, or_, select

from memory.analysis import kept
from memory.entry import Kind, Memory, Source, Status
from memory.scope import Scope
from storage.protocols import Filters
from storage.records.base import owned, owner
from storage.records.schema import memories, memory_entities
from storage.records.types import digest, holds, name_digest, sort_digest

FIELDS: Final = tuple(Memory.__dataclass_fields__)
"""Each field of an entry is a column of the same name."""

_KIND: Final = {kind.value: kind for kind in Kind}
_SOURCE: Final = {source.value: source for source in Source}
_STATUS: Final = {status.value: status for status in Status}
_TUPLES: Final = ("entities", "turn_ids", "context_turn_ids")
_PLACE: Final = {name: place for place, name in enumerate(FIELDS)}
_KIND_AT, _SOURCE_AT, _STATUS_AT, _METADATA_AT = (_PLACE[name] for name in ("kind", "source", "status", "metadata"))
_TUPLES_AT: Final = tuple(_PLACE[name] for name in _TUPLES)
KEPT_BY_TOUCH: Final = ("last_access_at", "access_count")
MAX_IN: Final = 5000
"""Ids in one statement; every database here takes more parameters than that."""


def columns(table: FromClause, prefix: str = "") -> list[ColumnElement[Any]]:
    """The columns of an entry, in the order of FIELDS."""
    return [table.c[name].label(prefix + name) if prefix else table.c[name] for name in FIELDS]


ENTRIES: Final[Select[Any]] = select(*columns(memories))
"""Made once: a statement of thirty columns takes longer to build than SQLite takes to answer it."""


def to_memory(values: Sequence[Any]) -> Memory:
    """An entry from its columns."""
    row = list(values)
    row[_KIND_AT], row[_SOURCE_AT] = _KIND[row[_KIND_AT]], _SOURCE[row[_SOURCE_AT]]
    row[_STATUS_AT] = _STATUS[row[_STATUS_AT]]
    for place in _TUPLES_AT:
        row[place] = tuple(row[place] or ())
    row[_METADATA_AT] = row[_METADATA_AT] or {}
    return Memory(*row)  # FIELDS are in its own order


def to_row(memory: Memory, fingerprint: str | None) -> dict[str, Any]:
    """The columns of an entry. Without `fingerprint` that column is left out."""
    row: dict[str, Any] = {name: getattr(memory, name) for name in FIELDS}
    row["kind"], row["source"], row["status"] = memory.kind.value, memory.source.value, memory.status.value
    for name in _TUPLES:
        row[name] = list(row[name])
    row["metadata"] = dict(memory.metadata)
    row["analysis"] = kept(memory.content, memory.subject)
    row["subject_digest"] = None if memory.subject is None else digest(memory.subject)
    row["sort_digest"] = sort_digest(memory.subject)
    if fingerprint is not None:
        row["fingerprint_digest"] = digest(fingerprint)
    return row


def unsearched(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """`column`, so written that no planner takes its index. SQLite, without statistics, prefers any index with more equalities to
    the primary key: all of a user's active entries were read to find fifty by id."""
    return func.coalesce(column, "")


def live(scope: Scope, table: FromClause = memories) -> ColumnElement[bool]:
    """The user's entries that exist: tombstones do not."""
    tenant_id, user_id = owner(scope)
    return and_(table.c.tenant_id == tenant_id, table.c.user_id == user_id, table.c.deleted_at.is_(None))


def among(scope: Scope, ids: Sequence[str]) -> ColumnElement[bool]:
    """The user's entries that exist, among at most MAX_IN `ids`: found by primary key."""
    tenant_id, user_id = owner(scope)
    c = memories.c
    return and_(c.tenant_id == tenant_id, c.id.in_(ids), unsearched(c.user_id) == user_id, c.deleted_at.is_(None))


def matching(
    scope: Scope, filters: Filters, default: Status | None, table: FromClause = memories
) -> ColumnElement[bool]:
    """Every filter, for every listing and search alike (P15). `default` is the status where the filters name none."""
    return and_(live(scope), *filter_terms(scope, filters, default))


def filter_terms(
    scope: Scope, filters: Filters, default: Status | None, table: FromClause = memories
) -> list[ColumnElement[bool]]:
    """Every filter, for every listing and search alike (P15). `default` is the status where the filters name none."""
    terms = row_terms(filters, default, table)
    if filters.entity is not None:
        terms.append(
            exists().where(
                owned(memory_entities, scope),
                memory_entities.c.memory_id == table.c.id,
                memory_entities.c.name_digest == name_digest(filters.entity),
            )
        )
    return terms


def row_terms(filters: Filters, default: Status | None, table: FromClause = memories) -> list[ColumnElement[bool]]:
    """Those that look at the entry's own row alone: all but the entity."""
    c = table.c
    terms: list[ColumnElement[bool]] = []
    status = unsearched(c.status)
    if filters.kinds is not None:
        terms.append(c.kind.in_([kind.value for kind in filters.kinds]) if filters.kinds else false())
    if filters.status is not None:
        terms.append(status == filters.status.value)
    elif filters.as_of is not None:
        terms.append(status != Status.PENDING.value)
    elif default is not None:
        terms.append(status == default.value)
    if filters.since is not None:
        terms.append(c.created_at >= filters.since)
    if filters.until is not None:
        terms.append(c.created_at < filters.until)
    if filters.min_confidence is not None:
        terms.append(c.confidence >= filters.min_confidence)
    if filters.as_of is not None:
        # Without a stated beginning, what was recorded held from then on: of the time before, nothing is known.
        terms.append(func.coalesce(c.valid_from, c.created_at) <= filters.as_of)
        terms.append(or_(c.valid_to.is_(None), c.valid_to > filters.as_of))
    if filters.text is not None:
        terms.append(holds(c.content, filters.text))
    return terms


def revision_row(
    scope: Scope, memory: Memory, change: str, turns: Sequence[str], session_id: str | None
) -> dict[str, Any]:
    """One line of history: what the entry became, and the turns that came with it."""
    tenant_id, user_id = owner(scope)
    return {
        "tenant_id": tenant_id,
        "user_id": user_id,
        "memory_id": memory.id,
        "version": memory.version,
        "content": memory.content,
        "kind": memory.kind.value,
        "status": memory.status.value,
        "confidence": memory.confidence,
        "at": memory.updated_at,
        "change": change,
        "session_id": session_id,
        "turns": list(turns),
        "entities": list(memory.entities),
    }


def entity_rows(scope: Scope, memory: Memory) -> list[Mapping[str, Any]]:
    tenant_id, user_id = owner(scope)
    return [
        {"tenant_id": tenant_id, "user_id": user_id, "memory_id": memory.id, "name_digest": name}
        for name in sorted({name_digest(entity) for entity in memory.entities})
    ]


def turn_rows(
    scope: Scope, memory: Memory, role: str, session_id: str, turns: Sequence[str]
) -> list[Mapping[str, Any]]:
    tenant_id, user_id = owner(scope)
    return [
        {
            "tenant_id": tenant_id,
            "user_id": user_id,
            "memory_id": memory.id,
            "role": role,
            "session_id": session_id,
            "turn_id": turn,
        }
        for turn in dict.fromkeys(turns)
    ]


def chunks(ids: Sequence[str]) -> list[list[str]]:
    """`ids` without repetitions, in pieces that one statement can take. None for none."""
    unique = list(dict.fromkeys(ids))
    return [unique[i : i + MAX_IN] for i in range(0, len(unique), MAX_IN)]


def after_key(columns: tuple[Any, Any], key: tuple[str, str]) -> ColumnElement[bool]:
    """Rows behind `key` in the order of two columns, so written that every planner here walks their index from there."""
    first, second = columns
    return and_(first >= key[0], or_(first > key[0], second > key[1]))


def ids_where(condition: ColumnElement[bool]) -> Select[Any]:
    return select(memories.c.id).where(condition)
