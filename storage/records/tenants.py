"""Tenants and their keys."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from memory.errors import Conflict, NotFound
from memory.ids import TenantId
from memory.scope import Grant, Scope
from storage.protocols import KeyRecord, TenantRecord
from storage.records.base import OnDatabase, same_id, utc_now
from storage.records.engine import Database
from storage.records.schema import tenant_keys, tenants


class SqlTenants(OnDatabase):
    """TenantStore in SQL."""

    def __init__(self, database: Database, now: Callable[[], datetime] = utc_now) -> None:
        super().__init__(database, now)

    async def tenant(self, scope: Scope, tenant_id: TenantId) -> TenantRecord:
        """NotFound("tenant") where there is none."""
        scope.require(Grant.SYSTEM)
        query = select(tenants).where(tenants.c.id == tenant_id)
        row = await self._database.read(lambda connection: connection.execute(query).first())
        if row is None or not same_id(row.id, tenant_id):
            raise NotFound("tenant")
        return _tenant(row)

    async def tenants(self, scope: Scope) -> list[TenantRecord]:
        """All of them, by id."""
        scope.require(Grant.SYSTEM)
        query = select(tenants).order_by(tenants.c.id)
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        return [_tenant(row) for row in rows]

    async def versions(self, scope: Scope) -> dict[TenantId, int]:
        """For the policy cache's poll: one small statement."""
        scope.require(Grant.SYSTEM)
        query = select(tenants.c.id, tenants.c.version)
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        return {TenantId(tenant_id): version for tenant_id, version in rows}

    async def apply(self, scope: Scope, tenant: TenantRecord, keys: Sequence[KeyRecord]) -> bool:
        """Upsert the tenant and exactly these keys, atomically. True where anything changed (the version goes up).

        The version is the store's own: `tenant.version` is not looked at. A key id of another tenant is a Conflict. A tenant that
        is being erased stays as it is, suspended and without keys: False (a declaration that was not taken away must not keep a
        deployment from starting).
        """
        scope.require(Grant.SYSTEM)
        wanted = {key.id: _key_row(tenant, key) for key in keys}
        values = {"display_name": tenant.display_name, "policy": tenant.policy, "suspended": tenant.suspended}

        def work(connection: Connection) -> bool:
            this = tenants.c.id == tenant.id
            row = connection.execute(select(tenants).where(this).with_for_update()).first()
            if row is not None and row.erasing_at is not None:
                return False
            if row is None:
                connection.execute(insert(tenants).values(id=tenant.id, version=1, **values))
            held = connection.execute(select(tenant_keys).where(tenant_keys.c.tenant_id == tenant.id)).all()
            there = {key.id: key._asdict() for key in held}
            same = row is not None and all(getattr(row, name) == value for name, value in values.items())
            if same and there == wanted:
                return False
            if row is not None:
                connection.execute(update(tenants).where(this).values(version=row.version + 1, **values))
            _replace_keys(connection, tenant.id, list(wanted.values()))
            return True

        return await self._database.write(work)

    async def key(self, scope: Scope, key_id: str) -> KeyRecord:
        """NotFound("key") where there is none. An expired one is answered: what that means is the caller's to say."""
        scope.require(Grant.SYSTEM)
        query = select(tenant_keys).where(tenant_keys.c.id == key_id)
        row = await self._database.read(lambda connection: connection.execute(query).first())
        if row is None or not same_id(row.id, key_id):
            raise NotFound("key")
        grants = frozenset(Grant(grant) for grant in row.grants)
        return KeyRecord(row.id, TenantId(row.tenant_id), row.name, bytes(row.digest), grants, row.expires_at)


def _replace_keys(connection: Connection, tenant_id: str, rows: Sequence[dict[str, Any]]) -> None:
    k = tenant_keys.c
    connection.execute(delete(tenant_keys).where(k.tenant_id == tenant_id))
    taken = select(k.id).where(k.id.in_([row["id"] for row in rows]))
    if rows and connection.execute(taken).first() is not None:
        raise Conflict("A key id belongs to another tenant.")
    if rows:
        connection.execute(insert(tenant_keys), rows)


def _tenant(row: Any) -> TenantRecord:
    return TenantRecord(
        TenantId(row.id), row.display_name, row.policy, row.version, row.suspended, row.erasing_at is not None
    )


def _key_row(tenant: TenantRecord, key: KeyRecord) -> dict[str, Any]:
    if key.tenant_id != tenant.id:
        raise NotFound("key")
    return {
        "id": key.id,
        "tenant_id": key.tenant_id,
        "name": key.name,
        "digest": key.digest,
        "grants": sorted(grant.value for grant in key.grants),
        "expires_at": key.expires_at,
    }
