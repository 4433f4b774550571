"""What the stores hold of one tenant, read past the product's own comparing code and compared here."""

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from sqlalchemy import Connection, Table, func, select

from memory.entry import Status
from memory.ids import TenantId, UserId
from memory.scope import Scope, system_scope
from storage.index.blind import BlindIndex
from storage.records import Database
from storage.records.schema import (
    dirty,
    erasures,
    memories,
    memory_entities,
    memory_tokens,
    memory_turns,
    receipts,
    revisions,
    users,
)
from tests.end_to_end.harness import Strata

PAGE = 200
CHILDREN = (memory_tokens, memory_turns, memory_entities, revisions, dirty)


@dataclass
class Audit:
    """Of one tenant, or the sum over several. `missing`: live rows without their entry of this version in the index; `orphans`: entries
    without a row; `undead`: entries of a deleted row; `tombstones`: deleted rows still there; `waiting`: marks in the dirty table;
    `pending`: erasures and receipts that are not complete; `loose`: children of no row; `untokened`: live rows without
    token vectors of their version."""

    rows: int = 0
    entries: int = 0
    missing: int = 0
    orphans: int = 0
    undead: int = 0
    tombstones: int = 0
    waiting: int = 0
    pending: int = 0
    loose: int = 0
    untokened: int = 0
    contents: dict[str, list[str]] = field(default_factory=dict)

    @property
    def faults(self) -> dict[str, int]:
        """What should be zero and is not."""
        counts = asdict(self)
        return {name: count for name, count in counts.items() if count and name not in ("rows", "entries", "contents")}

    def __add__(self, other: "Audit") -> "Audit":
        mine, theirs = asdict(self), asdict(other)
        sums: dict[str, Any] = {name: mine[name] + theirs[name] for name in mine if name != "contents"}
        return Audit(**sums, contents={**self.contents, **other.contents})


async def audit(strata: Strata, tenant: str) -> Audit:
    """Everything that is stored of `tenant`, and the active index."""
    services = strata.services
    database = services.records._database  # type: ignore[attr-defined]
    return await compared(database, services.index, (await services.embedder.card()).key, tenant)


async def compared(database: Database, index: BlindIndex, model_key: str, tenant: str) -> Audit:
    """The tenant's rows, and the index of one model."""
    rows, tokens, counts = await database.read(lambda connection: _of_sql(connection, tenant))
    held = await indexed(index, tenant)
    found = Audit(rows=len(rows), entries=sum(held.values()), **counts)
    for memory_id, version, deleted_at, user_id, content, status in rows:
        if deleted_at is not None:
            found.tombstones += 1
            found.undead += sum(count for (entry, _), count in held.items() if entry == memory_id)
            continue
        if status == Status.ACTIVE.value:
            found.contents.setdefault(user_id, []).append(content)
        found.missing += held[memory_id, version] != 1
        found.untokened += (memory_id, version, model_key) not in tokens
    known = {row[0] for row in rows}
    found.orphans = sum(count for (entry, _), count in held.items() if entry not in known)
    stale = {row[0]: row[1] for row in rows if row[2] is None}
    found.undead += sum(n for (entry, version), n in held.items() if entry in stale and stale[entry] != version)
    return found


async def indexed(index: BlindIndex, tenant: str) -> Counter[tuple[str, int]]:
    """Every entry of the tenant in the index, page by page."""
    held: Counter[tuple[str, int]] = Counter()
    cursor: str | None = None
    while True:
        page = await index.walk(system_scope(TenantId(tenant)), cursor, PAGE)
        held.update(page.entries)
        cursor = page.next_cursor
        if cursor is None:
            return held


def _of_sql(connection: Connection, tenant: str) -> tuple[list[Any], set[Any], dict[str, int]]:
    m, t = memories.c, memory_tokens.c
    rows = [
        tuple(row)
        for row in connection.execute(
            select(m.id, m.version, m.deleted_at, m.user_id, m.content, m.status)
            .where(m.tenant_id == tenant)
            .order_by(m.created_at, m.id)
        )
    ]
    tokens = {
        tuple(row)
        for row in connection.execute(select(t.memory_id, t.version, t.model_key).where(t.tenant_id == tenant))
    }
    counts = {
        "waiting": _count(connection, dirty, tenant),
        "pending": _count(connection, erasures, tenant)
        + int(
            connection.scalar(
                select(func.count())
                .select_from(receipts)
                .where(receipts.c.tenant_id == tenant, receipts.c.completed_at.is_(None))
            )
            or 0
        ),
        "loose": sum(_loose(connection, table, tenant, {row[0] for row in rows}) for table in CHILDREN),
    }
    return rows, tokens, counts


def _count(connection: Connection, table: Table, tenant: str) -> int:
    return int(connection.scalar(select(func.count()).select_from(table).where(table.c.tenant_id == tenant)) or 0)


def _loose(connection: Connection, table: Table, tenant: str, known: set[str]) -> int:
    found = connection.scalars(select(table.c.memory_id).where(table.c.tenant_id == tenant))
    return sum(1 for memory_id in found if memory_id not in known)


async def left_of_user(strata: Strata, tenant: str, user: str) -> dict[str, int]:
    """What the stores still hold of a user after his erasure, by store; only what is not zero."""
    scope = Scope(TenantId(tenant), UserId(user))
    database = strata.services.records._database  # type: ignore[attr-defined]
    tables = (users, memories, memory_tokens, memory_turns, memory_entities, revisions, dirty)

    def rows(connection: Connection) -> dict[str, int]:
        return {
            table.name: int(
                connection.scalar(
                    select(func.count()).select_from(table).where(table.c.tenant_id == tenant, table.c.user_id == user)
                )
                or 0
            )
            for table in tables
        }

    left = await database.read(rows)
    left["sessions"] = await strata.services.sessions.count_user(scope)
    left["claims"] = await strata.services.idempotency.count_user(scope)
    return {name: count for name, count in left.items() if count}


async def erasing(strata: Strata, tenant: str | None = None) -> int:
    """How many erasures are under way, in `tenant` or anywhere."""
    query = select(func.count()).select_from(erasures)
    if tenant is not None:
        query = query.where(erasures.c.tenant_id == tenant)
    database = strata.services.records._database  # type: ignore[attr-defined]
    return int(await database.read(lambda connection: connection.scalar(query)) or 0)
