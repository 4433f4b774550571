"""Writing entries: read what a candidate must be compared with, decide, write, all in one transaction."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, and_, delete, func, insert, select, union, update

from memory.entry import Memory, Status
from memory.errors import Conflict, NotFound, Overloaded
from memory.ids import MemoryId
from memory.scope import Scope
from storage.protocols import AuditEvent, Insert, Lookup, Plan, Update
from storage.records.audit import append_audit, count_access
from storage.records.base import OnDatabase, lock_user, owned
from storage.records.marks import mark_dirty
from storage.records.recall import newest_unindexed
from storage.records.rows import (
    ENTRIES,
    KEPT_BY_TOUCH,
    among,
    chunks,
    entity_rows,
    ids_where,
    live,
    revision_row,
    to_memory,
    to_row,
    turn_rows,
    unsearched,
)
from storage.records.schema import memories, memory_entities, memory_turns, revisions
from storage.records.types import digest

_QUOTA_RETRY_S = 3600.0


class Writes(OnDatabase):
    async def write(
        self,
        scope: Scope,
        lookup: Lookup,
        decide: Callable[[Sequence[Memory]], Plan],
        audit: Sequence[AuditEvent],
        max_entries: int,
    ) -> Plan:
        """Read what `lookup` names, call `decide` (pure; may run again on a retried transaction), write its changes, history,
        audit and dirty marks: all or nothing, serialised per user, so that two writers of one fact make one entry.

        What `lookup` finds by subject, fingerprint or waiting for the index is active or pending; what it names by id may be
        outdated too. An Insert whose id exists, be it as a tombstone, is ignored (a retried request). An Update keeps the
        access counts. Over `max_entries` entries, outdated ones counted: Overloaded.
        """
        now = self._now()

        def work(connection: Connection) -> Plan:
            lock_user(connection, scope, now)
            plan = decide(looked_up(connection, scope, lookup))
            inserts = [change for change in plan.changes if isinstance(change, Insert)]
            _insert(connection, scope, inserts, max_entries, now)
            for change in plan.changes:
                if isinstance(change, Update):
                    _update(connection, scope, change)
            again = [c.memory.id for c in plan.changes if isinstance(c, Update) and c.reindex]
            mark_dirty(connection, scope, again, now)
            append_audit(connection, scope, audit)
            return plan

        return await self._database.write(work)

    async def touch(self, scope: Scope, ids: Sequence[MemoryId], at: datetime) -> None:
        """Access counts, after the response."""
        if ids:
            await self._database.write(lambda connection: count_access(connection, scope, ids, at))


def looked_up(connection: Connection, scope: Scope, lookup: Lookup) -> list[Memory]:
    """The union that `lookup` names, oldest first."""
    m = memories.c
    current_status = unsearched(m.status) != Status.OUTDATED.value
    current = and_(live(scope), current_status)
    wanted: list[Select[Any]] = []
    if lookup.subjects:
        named = sorted({digest(s) for s in lookup.subjects})
        wanted += [ids_where(and_(current, column.in_(named))) for column in (m.subject_digest, m.sort_digest)]
    if lookup.fingerprints:
        prints = sorted({digest(f) for f in lookup.fingerprints})
        wanted.append(ids_where(and_(current, m.fingerprint_digest.in_(prints))))
    if lookup.near:
        wanted.append(ids_where(among(scope, list(dict.fromkeys(lookup.near)))))
    if lookup.unindexed > 0:
        wanted.append(newest_unindexed(scope, [current_status], lookup.unindexed))
    if not wanted:
        return []
    chosen = (union(*wanted) if len(wanted) > 1 else wanted[0]).subquery("chosen")
    query = ENTRIES.join(chosen, and_(live(scope), m.id == chosen.c.id)).order_by(m.created_at, m.id)
    return [to_memory(row) for row in connection.execute(query)]


def _insert(connection: Connection, scope: Scope, inserts: Sequence[Insert], max_entries: int, now: datetime) -> None:
    new: dict[str, Insert] = {}
    for change in inserts:
        _own(scope, change.memory)
        new.setdefault(change.memory.id, change)
    for piece in chunks(list(new)):
        there = select(memories.c.id, memories.c.user_id).where(
            memories.c.tenant_id == scope.tenant_id, memories.c.id.in_(piece)
        )
        for memory_id, user_id in connection.execute(there):
            if user_id != scope.user:  # ids are unguessable: a caller's own mistake, and never two users' one entry
                raise Conflict("This memory id is taken.")
            del new[memory_id]
    if not new:
        return
    held = connection.scalar(select(func.count()).select_from(memories).where(live(scope))) or 0
    if held + len(new) > max_entries:
        raise Overloaded("the memories of this user", _QUOTA_RETRY_S)
    rows: list[Mapping[str, Any]] = []
    entities: list[Mapping[str, Any]] = []
    turns: list[Mapping[str, Any]] = []
    history: list[Mapping[str, Any]] = []
    for change in new.values():
        memory = change.memory
        row = {**to_row(memory, change.fingerprint), "tenant_id": scope.tenant_id}
        rows.append(row)
        entities += entity_rows(scope, memory)
        session_id = memory.session_id or scope.session_id
        if session_id is not None:
            turns += turn_rows(scope, memory, "source", session_id, memory.turn_ids)
            turns += turn_rows(scope, memory, "context", session_id, memory.context_turn_ids)
        line = revision_row(scope, memory, change.change, memory.turn_ids, session_id)
        history.append({**line, "fingerprint_digest": row["fingerprint_digest"]})
    for table, values in ((memories, rows), (memory_entities, entities), (memory_turns, turns), (revisions, history)):
        if values:
            connection.execute(insert(table), values)
    mark_dirty(connection, scope, list(new), now, new=True)


def _update(connection: Connection, scope: Scope, change: Update) -> None:
    memory = change.memory
    _own(scope, memory)
    mine = (live(scope), memories.c.id == memory.id)
    before = connection.execute(
        select(memories.c.turn_ids, memories.c.fingerprint_digest).where(*mine).with_for_update()
    ).first()
    if before is None:
        raise NotFound("memory")
    row = to_row(memory, change.fingerprint)
    for name in ("id", "user_id", "created_at", *KEPT_BY_TOUCH):
        del row[name]
    connection.execute(update(memories).where(*mine).values(row))
    replace_entities(connection, scope, memory)
    added = [turn for turn in memory.turn_ids if turn not in (before.turn_ids or ())]
    session_id = scope.session_id or memory.session_id
    _relate_turns(connection, scope, memory, added, session_id)
    line = revision_row(scope, memory, change.change, added, session_id)
    line["fingerprint_digest"] = row.get("fingerprint_digest", before.fingerprint_digest)
    connection.execute(insert(revisions), [line])


def replace_entities(connection: Connection, scope: Scope, memory: Memory) -> None:
    """The names by which an entry is found are those of its present wording."""
    mine = (owned(memory_entities, scope), memory_entities.c.memory_id == memory.id)
    rows = entity_rows(scope, memory)
    there = set(connection.scalars(select(memory_entities.c.name_digest).where(*mine)))
    if there != {row["name_digest"] for row in rows}:
        connection.execute(delete(memory_entities).where(*mine))
        if rows:
            connection.execute(insert(memory_entities), rows)


def _relate_turns(
    connection: Connection, scope: Scope, memory: Memory, added: Sequence[str], session_id: str | None
) -> None:
    """Turns new to the entry are of the session that speaks; those that it let go of no longer feed it."""
    t = memory_turns.c
    mine = (owned(memory_turns, scope), t.memory_id == memory.id)
    known = {(role, turn) for role, turn in connection.execute(select(t.role, t.turn_id).where(*mine))}
    kept = {("source", turn) for turn in memory.turn_ids} | {("context", turn) for turn in memory.context_turn_ids}
    for role, turn in known - kept:
        connection.execute(delete(memory_turns).where(*mine, t.role == role, t.turn_id == turn))
    if session_id is None:
        return
    rows = turn_rows(scope, memory, "source", session_id, added)
    fresh = [turn for turn in memory.context_turn_ids if ("context", turn) not in known]
    rows += turn_rows(scope, memory, "context", session_id, fresh)
    if rows:
        connection.execute(insert(memory_turns), rows)


def _own(scope: Scope, memory: Memory) -> None:
    if memory.user_id != scope.user:
        raise NotFound("user")
