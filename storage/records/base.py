"""What the parts of the record store share: the database, the clock, and whose rows a statement may touch."""

import secrets
from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, Connection, Table, and_, insert, select

from memory.errors import InvalidInput, NotFound
from memory.ids import checked_id
from memory.scope import Scope
from storage.records.engine import Database
from storage.records.schema import users


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
    """Writers of one user take turns from here to the end of the transaction. SQLite's BEGIN IMMEDIATE has seen to it already."""
    if connection.dialect.name == "sqlite":
        return
    row = select(users.c.user_id).where(owned(users, scope)).with_for_update()
    if connection.execute(row).first() is None:
        tenant_id, user_id = owner(scope)
        connection.execute(insert(users).values(tenant_id=tenant_id, user_id=user_id, created_at=now))


def fresh_mark() -> int:
    """Never the same twice: a worker that fell asleep over a finished mark must not finish a later one that counts from 1 again."""
    return secrets.randbits(62)
