"""A turn goes, and with it what it taught (P31, W7)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from memory.entry import Kind, Memory, Status
from memory.ids import MemoryId, TurnId
from memory.scope import Scope
from storage.protocols import AuditEvent, Retracted
from storage.records.audit import append_audit
from storage.records.base import OnDatabase, lock_user, owned, owner
from storage.records.deletion import bury
from storage.records.marks import mark_dirty
from storage.records.rows import ENTRIES, among, chunks, live, revision_row, to_memory, to_row
from storage.records.schema import memories, memory_tokens, memory_turns, revisions
from storage.records.writes import replace_entities


@dataclass
class _Traces:
    """Where the retracted turns are found in one entry, and where else it came from."""

    sources: set[str] = field(default_factory=set)
    contexts: set[str] = field(default_factory=set)
    other_sources: set[str] = field(default_factory=set)


class Retraction(OnDatabase):
    async def retract_turns(self, scope: Scope, turn_ids: Sequence[TurnId], audit: AuditEvent) -> Retracted:
        """For scope.session. Entries that also came from other turns stay; entries encoded with one of these as context lose
        their token vectors and are marked to be encoded again without it; an entry that a deleted one had retired is active again.

        An entry that stays is worded as it was before these turns reworded it, if they did. Every entry that is to be encoded
        again gets a new version, so that a worker that still holds the old context cannot store what it made of it.
        """
        session_id = scope.session
        now = self._now()

        def work(connection: Connection) -> Retracted:
            lock_user(connection, scope, now)
            traces = _traces(connection, scope, session_id, turn_ids)
            deleted = [i for i, trace in traces.items() if trace.sources and not trace.other_sources]
            restored = _restore(connection, scope, deleted, now)
            bury(connection, scope, deleted, now, receipt_id=None)
            changed = [i for i in traces if i not in set(deleted)]
            for memory_id in changed:
                _let_go(connection, scope, memory_id, traces[memory_id], session_id, now)
            mark_dirty(connection, scope, [*changed, *restored], now)
            touched = (*deleted, *changed, *restored)
            append_audit(connection, scope, [replace(audit, memory_ids=tuple(map(MemoryId, touched)))])
            return Retracted(*(tuple(map(MemoryId, ids)) for ids in (deleted, restored, changed)))

        return await self._database.write(work) if turn_ids else Retracted()


def _traces(connection: Connection, scope: Scope, session_id: str, turn_ids: Sequence[str]) -> Mapping[str, _Traces]:
    t = memory_turns.c
    mine = owned(memory_turns, scope)
    gone = set(turn_ids)
    traces: dict[str, _Traces] = defaultdict(_Traces)
    for piece in chunks(turn_ids):
        query = select(t.memory_id, t.role, t.turn_id).where(mine, t.session_id == session_id, t.turn_id.in_(piece))
        for memory_id, role, turn in connection.execute(query):
            trace = traces[memory_id]
            (trace.sources if role == "source" else trace.contexts).add(turn)
    for piece in chunks(list(traces)):
        query = select(t.memory_id, t.session_id, t.turn_id).where(mine, t.role == "source", t.memory_id.in_(piece))
        for memory_id, session, turn in connection.execute(query):
            if session != session_id or turn not in gone:
                traces[memory_id].other_sources.add(turn)
    return traces


def _restore(connection: Connection, scope: Scope, deleted: Sequence[str], now: datetime) -> list[str]:
    """What the deleted entries had retired is active again, unless it is deleted with them or a later entry, which stays, had
    retired the deleted one in its turn: then that one prevails over both."""
    m = memories.c
    gone = set(deleted)
    before: dict[str, str | None] = {}
    after: dict[str, str] = {}
    for piece in chunks(deleted):
        held = connection.execute(select(m.id, m.supersedes).where(among(scope, piece)))
        before.update((new, old) for new, old in held)
        later = select(m.supersedes, m.id).where(live(scope), m.supersedes.in_(piece))
        after.update({old: new for old, new in connection.execute(later) if new not in gone})
    restored = []
    for memory_id in deleted:
        old = before.get(memory_id)
        if old is None or old in gone:
            continue
        heir, seen = memory_id, set(deleted)
        while heir in seen:  # up the chain of deleted entries to the one that stays, if any
            seen.discard(heir)
            heir = after.get(heir) or next((new for new, o in before.items() if o == heir), "")
        if heir:
            connection.execute(update(memories).where(live(scope), m.id == heir).values(supersedes=old))
        elif _reactivate(connection, scope, old, now):
            restored.append(old)
    return restored


def _reactivate(connection: Connection, scope: Scope, memory_id: str, now: datetime) -> bool:
    this = (live(scope), memories.c.id == memory_id, memories.c.status == Status.OUTDATED.value)
    row = connection.execute(ENTRIES.where(*this)).first()
    if row is None:
        return False
    memory = replace(to_memory(row), status=Status.ACTIVE, valid_to=None, updated_at=now)
    connection.execute(update(memories).where(*this).values(status=memory.status.value, valid_to=None, updated_at=now))
    _add_line(connection, scope, memory)
    return True


def _let_go(
    connection: Connection, scope: Scope, memory_id: str, trace: _Traces, session_id: str, now: datetime
) -> None:
    """Take the turns out of an entry that stays."""
    t, m = memory_turns.c, memories.c
    mine = (live(scope), m.id == memory_id)
    memory = to_memory(connection.execute(ENTRIES.where(*mine)).one())
    fingerprint: str | None = None
    if trace.sources:
        memory, fingerprint = _wording_without(connection, scope, memory, trace.sources, session_id)
    memory = replace(
        memory,
        turn_ids=tuple(turn for turn in memory.turn_ids if turn not in trace.sources - trace.other_sources),
        context_turn_ids=tuple(turn for turn in memory.context_turn_ids if turn not in trace.contexts),
        version=memory.version + 1,
        updated_at=now,
    )
    row = to_row(memory, None)
    if fingerprint is not None:
        row["fingerprint_digest"] = fingerprint
    connection.execute(update(memories).where(*mine).values(row))
    replace_entities(connection, scope, memory)
    for role, turns in (("source", trace.sources), ("context", trace.contexts)):
        connection.execute(
            delete(memory_turns).where(
                owned(memory_turns, scope),
                t.memory_id == memory_id,
                t.role == role,
                t.session_id == session_id,
                t.turn_id.in_(sorted(turns)),
            )
        )
    connection.execute(delete(memory_tokens).where(owned(memory_tokens, scope), memory_tokens.c.memory_id == memory_id))
    if trace.sources:
        _add_line(connection, scope, memory, fingerprint)


def _wording_without(
    connection: Connection, scope: Scope, memory: Memory, turns: set[str], session_id: str
) -> tuple[Memory, str | None]:
    """The entry as the turns that stay left it, and the digest of its fingerprint. Lines of history that came with the retracted
    turns alone go."""
    r = revisions.c
    lines = connection.execute(
        select(revisions).where(owned(revisions, scope), r.memory_id == memory.id).order_by(r.number)
    ).all()
    gone = [line for line in lines if line.turns and set(line.turns) <= turns and line.session_id == session_id]
    numbers = [line.number for line in gone]
    if not numbers:
        return memory, None
    connection.execute(delete(revisions).where(owned(revisions, scope), r.number.in_(numbers)))
    confirmations = sum(line.change == "confirmed" for line in gone)
    memory = replace(memory, hit_count=max(1, memory.hit_count - confirmations))
    stays = [line for line in lines if line.number not in set(numbers)]
    if not stays or memory.content not in {line.content for line in gone}:
        return memory, None
    # The first wording of an entry whose first turn is the one that goes is that of the turn that confirmed it.
    last: Any = stays[-1]
    memory = replace(
        memory,
        content=last.content,
        kind=Kind(last.kind),
        confidence=last.confidence,
        entities=tuple(last.entities or ()),
    )
    return memory, last.fingerprint_digest


def _add_line(connection: Connection, scope: Scope, memory: Memory, fingerprint: str | None = None) -> None:
    tenant_id, user_id = owner(scope)
    if fingerprint is None:
        fingerprint = connection.scalar(
            select(memories.c.fingerprint_digest).where(
                memories.c.tenant_id == tenant_id, memories.c.user_id == user_id, memories.c.id == memory.id
            )
        )
    line = {**revision_row(scope, memory, "restored", (), None), "fingerprint_digest": fingerprint}
    connection.execute(insert(revisions), [line])
