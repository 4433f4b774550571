"""What the parts of the record store share: the database, the clock, and whose rows a statement may touch."""

import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Table, and_, insert, select

from memory.errors import Conflict, InvalidInput, NotFound
from memory.ids import checked_id
from memory.scope import Scope
from storage.records.engine import Database
from storage.records.schema import tenants, users


def utc_now() -> datetime:
    return datetime.now(UTC)


class OnDatabase:
    """`now` is asked once a transaction, for what the caller gives no time."""

    def __init__(self, database: Database, now: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._now = now


def owner(scope: Scope) -> tuple[str, str]:
    """(tenant, user) of the scope. Looked at once more where they enter SQL: an id that no edge lets in is nobody (P24)."""
    try:
        return checked_id(scope.tenant_id, "tenant_id"), checked_id(scope.user, "user_id")
    except InvalidInput:
        raise NotFound("user") from None


def same_id(found: str | None, asked: str) -> bool:
    """Whether what was found is what was asked for: MySQL's binary collations still take `a ` for `a` (P14)."""
    return found == asked


def owned(table: Table, scope: Scope) -> ColumnElement[bool]:
    """The filter that every statement on a user's rows carries (I1)."""
    tenant_id, user_id = owner(scope)
    return and_(table.c.tenant_id == tenant_id, table.c.user_id == user_id)


def lock_user(connection: Connection, scope: Scope, now: datetime) -> None:
    """Writers of one user take turns from here to the end of the transaction (SQLite's BEGIN IMMEDIATE has seen to it already).

    Conflict where the user or the whole tenant is being erased: whoever has the lock and was let through has written before the
    fence went up, or is behind it (I3).
    """
    row = user_row(connection, scope)
    if row is None:
        add_user(connection, scope, now)
    elif row.fenced:
        raise being_erased()


class UserRow(NamedTuple):
    ref: str | None
    wrapped: bytes | None
    erasing_at: datetime | None
    tenant_erasing_at: datetime | None

    @property
    def fenced(self) -> bool:
        return self.erasing_at is not None or self.tenant_erasing_at is not None


def user_row(connection: Connection, scope: Scope, lock: bool = True) -> UserRow | None:
    """The user's row, locked unless it is only looked at. The tenant's is not locked: all its users write at once."""
    tenant_id, _ = owner(scope)
    tenant = select(tenants.c.erasing_at).where(tenants.c.id == tenant_id).scalar_subquery()
    query = select(users.c.ref, users.c.wrapped, users.c.erasing_at, tenant).where(owned(users, scope))
    row = connection.execute(query.with_for_update() if lock else query).first()
    return None if row is None else UserRow(*row)


def add_user(connection: Connection, scope: Scope, now: datetime, **values: Any) -> None:
    """The first sight of a user. The tenant's row is held meanwhile, so that its fence cannot go up unseen."""
    tenant_id, user_id = owner(scope)
    tenant = select(tenants.c.erasing_at).where(tenants.c.id == tenant_id).with_for_update(read=True)
    if connection.scalar(tenant) is not None:
        raise being_erased()
    connection.execute(insert(users).values(tenant_id=tenant_id, user_id=user_id, created_at=now, **values))


def being_erased() -> Conflict:
    return Conflict("This user is being erased; try again when the erasure is complete.")


def fresh_mark() -> int:
    """Never the same twice: a worker that fell asleep over a finished mark must not finish a later one that counts from 1 again."""
    return secrets.randbits(62)
