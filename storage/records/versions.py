"""Which models' indexes there are, and where a tenant's entries lie in each."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, tuple_, update

from memory.errors import Conflict, NotFound
from memory.ids import MemoryId, TenantId
from memory.scope import Grant, Scope
from storage.protocols import IndexVersion, Placement, VersionState
from storage.records.base import OnDatabase, same_id, utc_now
from storage.records.engine import Database
from storage.records.rows import after_key
from storage.records.schema import index_versions, memory_tokens, placements

_TOKENS_A_STEP = 500

_v = index_versions.c
_p = placements.c


class SqlVersions(OnDatabase):
    """VersionStore and PlacementStore in SQL."""

    def __init__(self, database: Database, now: Callable[[], datetime] = utc_now) -> None:
        super().__init__(database, now)

    async def versions(self, scope: Scope) -> list[IndexVersion]:
        """All of them, oldest first."""
        scope.require(Grant.SYSTEM)
        query = select(index_versions).order_by(_v.created_at, _v.model_key)
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        return [_version(row) for row in rows]

    async def put(self, scope: Scope, version: IndexVersion) -> None:
        """Insert, or replace the one with the same model key. Without `created_at`: as it is stored, or now."""
        scope.require(Grant.SYSTEM)
        now = self._now()
        tenant_id, memory_id = version.at or (None, None)
        values = {
            "dimension": version.dimension,
            "state": version.state.value,
            "details": version.details,
            "activated_at": version.activated_at,
            "at_tenant_id": tenant_id,
            "at_memory_id": memory_id,
        }
        this = _v.model_key == version.model_key

        def work(connection: Connection) -> None:
            row = connection.execute(select(_v.created_at).where(this).with_for_update()).first()
            created_at = version.created_at or (now if row is None else row.created_at)
            if row is None:
                made = insert(index_versions).values(model_key=version.model_key, created_at=created_at, **values)
                connection.execute(made)
            else:
                connection.execute(update(index_versions).where(this).values(created_at=created_at, **values))

        await self._database.write(work)

    async def activate(self, scope: Scope, model_key: str, now: datetime) -> None:
        """That one is active, the one that was is retired, in one transaction. NotFound("index version").
        Active already: nothing changes."""
        scope.require(Grant.SYSTEM)
        active = VersionState.ACTIVE.value

        def work(connection: Connection) -> None:
            # All of them, in one order: two replicas that activate different ones take turns.
            held = select(_v.model_key, _v.state).order_by(_v.model_key).with_for_update()
            states = {row.model_key: row.state for row in connection.execute(held)}
            if model_key not in states:
                raise NotFound("index version")
            if states[model_key] == active:
                return
            retired = VersionState.RETIRED.value
            connection.execute(update(index_versions).where(_v.state == active).values(state=retired))
            this = _v.model_key == model_key
            connection.execute(update(index_versions).where(this).values(state=active, activated_at=now))

        await self._database.write(work)

    async def drop(self, scope: Scope, model_key: str) -> int:
        """The version's row and every token vector of its model. Returns how many of these there were. Conflict if it is active.

        The vectors go in bounded steps, the row last: a drop that was cut off is done by dropping again.
        """
        scope.require(Grant.SYSTEM)
        gone, place = 0, None
        this = _v.model_key == model_key
        while True:

            def step(connection: Connection, after: tuple[str, str] | None = place) -> list[tuple[str, str]]:
                state = connection.scalar(select(_v.state).where(this).with_for_update())
                if state == VersionState.ACTIVE.value:
                    raise Conflict("This index version is active: activate another one first.")
                rows = _tokens(connection, model_key, after)
                if not rows:
                    connection.execute(delete(index_versions).where(this))
                return rows

            rows = await self._database.write(step)
            if not rows:
                return gone
            gone, place = gone + len(rows), rows[-1]

    async def placements(self, scope: Scope, model_key: str) -> dict[TenantId, Placement]:
        """Of every tenant that has one in this model's index."""
        scope.require(Grant.SYSTEM)
        query = select(placements).where(_p.model_key == model_key)
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        return {
            TenantId(row.tenant_id): Placement(row.place, row.moving_to, row.since)
            for row in rows
            if same_id(row.model_key, model_key)
        }

    async def place(self, scope: Scope, model_key: str, placement: Placement) -> None:
        """Of scope's tenant. Without `since`: from now on."""
        scope.require(Grant.SYSTEM)
        values = {
            "place": placement.place,
            "moving_to": placement.moving_to,
            "since": placement.since or self._now(),
        }
        this = (_p.tenant_id == scope.tenant_id, _p.model_key == model_key)

        def work(connection: Connection) -> None:
            if connection.execute(select(_p.place).where(*this).with_for_update()).first() is None:
                key = {"tenant_id": scope.tenant_id, "model_key": model_key}
                connection.execute(insert(placements).values(**key, **values))
            else:
                connection.execute(update(placements).where(*this).values(**values))

        await self._database.write(work)


def _tokens(connection: Connection, model_key: str, after: tuple[str, str] | None) -> list[tuple[str, str]]:
    """Delete the next token vectors of a model, in the order of the primary key; whose they were."""
    t = memory_tokens.c
    query = select(t.tenant_id, t.memory_id).where(t.model_key == model_key)
    if after is not None:
        query = query.where(after_key((t.tenant_id, t.memory_id), after))
    rows = connection.execute(query.order_by(t.tenant_id, t.memory_id).limit(_TOKENS_A_STEP))
    keys = [(row.tenant_id, row.memory_id) for row in rows]
    if keys:
        named = tuple_(t.tenant_id, t.memory_id).in_(keys)
        connection.execute(delete(memory_tokens).where(named, t.model_key == model_key))
    return keys


def _version(row: Row[Any]) -> IndexVersion:
    at = None if row.at_memory_id is None else (TenantId(row.at_tenant_id), MemoryId(row.at_memory_id))
    return IndexVersion(
        row.model_key,
        row.dimension,
        VersionState(row.state),
        row.details,
        row.created_at,
        row.activated_at,
        at,
    )
