"""Looking at entries: one, a page, a history."""

from datetime import datetime

from sqlalchemy import Connection, and_, desc, or_, select

from memory.entry import Kind, Memory, Revision, Status
from memory.errors import NotFound
from memory.ids import MemoryId
from memory.scope import Scope
from storage.cursors import bad_cursor, encode_cursor, position_after
from storage.protocols import Filters, Page
from storage.records.base import OnDatabase, owned, same_id
from storage.records.rows import ENTRIES, live, matching, to_memory
from storage.records.schema import memories, revisions

_LISTING = "memories"


class Reads(OnDatabase):
    async def get(self, scope: Scope, memory_id: MemoryId) -> Memory:
        """The entry, whatever its status. NotFound("memory") where it is gone or another's."""
        query = ENTRIES.where(live(scope), memories.c.id == memory_id)
        row = await self._database.read(lambda connection: connection.execute(query).first())
        if row is None or not same_id(row.id, memory_id):
            raise NotFound("memory")
        return to_memory(row)

    async def page(self, scope: Scope, filters: Filters, limit: int, cursor: str | None) -> Page[Memory]:
        """Newest first; of any status unless the filters name one. InvalidInput("cursor") for a cursor that is another's."""
        query = ENTRIES.where(matching(scope, filters, default=None))
        if cursor is not None:
            at, after = _place(position_after(_LISTING, scope, cursor))
            created = memories.c.created_at
            query = query.where(or_(created < at, and_(created == at, memories.c.id < after)))
        query = query.order_by(desc(memories.c.created_at), desc(memories.c.id)).limit(limit + 1)
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        items = tuple(to_memory(row) for row in rows[:limit])
        if len(rows) <= limit or not items:
            return Page(items)
        last = items[-1]
        return Page(items, encode_cursor(scope, f"{_LISTING}:{last.created_at.isoformat()}|{last.id}"))

    async def history(self, scope: Scope, memory_id: MemoryId) -> tuple[Revision, ...]:
        """Oldest first; the last line is the entry as it is. NotFound("memory") where it is gone or another's."""
        r = revisions.c

        def work(connection: Connection) -> tuple[Revision, ...]:
            found = connection.scalar(select(memories.c.id).where(live(scope), memories.c.id == memory_id))
            if not same_id(found, memory_id):
                raise NotFound("memory")
            query = (
                select(r.version, r.content, r.kind, r.status, r.confidence, r.at, r.change, r.session_id)
                .where(owned(revisions, scope), r.memory_id == memory_id)
                .order_by(r.number)
            )
            return tuple(
                Revision(version, content, Kind(kind), Status(status), *rest)
                for version, content, kind, status, *rest in connection.execute(query)
            )

        return await self._database.read(work)

    async def recent(self, scope: Scope, limit: int) -> list[Memory]:
        """Active entries, most important and newest first: what recall falls back to without an index, and preloading."""
        m = memories.c
        query = (
            ENTRIES.where(live(scope), m.status == Status.ACTIVE.value)
            .order_by(desc(m.importance), desc(m.created_at), desc(m.id))
            .limit(limit)
        )
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        return [to_memory(row) for row in rows]

    async def ping(self) -> None:
        """Raises Unavailable unless the database answers."""
        await self._database.read(lambda connection: connection.execute(select(1)).scalar_one())


def _place(place: str) -> tuple[datetime, str]:
    at, bar, after = place.partition("|")
    try:
        when = datetime.fromisoformat(at)
    except ValueError:
        raise bad_cursor() from None
    if not bar or when.tzinfo is None:
        raise bad_cursor()
    return when, after
