"""Changing users' keys: wrapped anew under another master key, or replaced."""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, delete, select, update

from memory.ids import TenantId, UserId, UserRef
from memory.scope import NO_TENANT, Grant, Scope, system_scope
from storage.protocols import UserKey
from storage.records.base import OnDatabase, being_erased, owned, user_row
from storage.records.marks import mark_dirty
from storage.records.rows import after_key, live
from storage.records.schema import memories, memory_tokens, users

_PAGE = 500

_Place = tuple[str, str]


class Keys(OnDatabase):
    _walked_to: _Place | None = None
    """How far `rewrap_keys` has looked: the next call goes on from there."""

    async def rewrap_keys(self, scope: Scope, rewrapped: Callable[[Scope, UserKey], bytes | None], limit: int) -> int:
        """Store anew the wrapped keys for which `rewrapped(scope, key)` gives other bytes than they have (None: leave it), at most
        `limit` of them, each only if it did not change meanwhile. Returns how many; 0 where nothing is left to do.

        Of scope's tenant, or of all with system_scope(). A page of keys is read, made anew outside any transaction, and written.
        """
        scope.require(Grant.SYSTEM)
        done, start = 0, self._walked_to
        place = start
        while done < limit:
            rows = await self._keys_after(scope, place, min(_PAGE, limit - done))
            done += await self._store(_made_anew(rows, rewrapped))
            if rows:
                place = (rows[-1].tenant_id, rows[-1].user_id)
            elif start is not None and done == 0:
                place = start = None  # nothing from there to the end: what lies before was perhaps never looked at
            else:
                place = None
                break
        self._walked_to = place
        return done

    async def replace_key(self, scope: Scope, key: UserKey) -> UserKey | None:
        """Rotation: scope.user has `key` from now on, his token vectors go and all his entries are dirty. Returns the old key, whose
        reference the index must be cleared of once nothing of his is dirty; None for a user who has none.

        Every entry gets a new version, so that a worker that has just sealed with the old key cannot store what it made.
        """
        scope.require(Grant.SYSTEM)
        now = self._now()

        def work(connection: Connection) -> UserKey | None:
            row = user_row(connection, scope)
            if row is not None and row.fenced:
                raise being_erased()
            if row is None or row.ref is None or row.wrapped is None:
                return None
            connection.execute(update(users).where(owned(users, scope)).values(ref=key.ref, wrapped=key.wrapped))
            connection.execute(delete(memory_tokens).where(owned(memory_tokens, scope)))
            entries = list(connection.scalars(select(memories.c.id).where(live(scope)).order_by(memories.c.id)))
            connection.execute(update(memories).where(live(scope)).values(version=memories.c.version + 1))
            mark_dirty(connection, scope, entries, now)
            return UserKey(UserRef(row.ref), row.wrapped)

        return await self._database.write(work)

    async def _keys_after(self, scope: Scope, after: _Place | None, limit: int) -> Sequence[Any]:
        u = users.c
        query = select(u.tenant_id, u.user_id, u.ref, u.wrapped).where(u.wrapped.is_not(None))
        if scope.tenant_id != NO_TENANT:
            query = query.where(u.tenant_id == scope.tenant_id)
        if after is not None:
            query = query.where(after_key((u.tenant_id, u.user_id), after))
        query = query.order_by(u.tenant_id, u.user_id).limit(limit)
        return await self._database.read(lambda connection: connection.execute(query).all())

    async def _store(self, wrapped: Sequence[tuple[Scope, UserKey, bytes]]) -> int:
        def work(connection: Connection) -> int:
            return sum(
                connection.execute(
                    update(users).where(owned(users, scope), users.c.wrapped == key.wrapped).values(wrapped=new)
                ).rowcount
                for scope, key, new in wrapped
            )

        return await self._database.write(work) if wrapped else 0


def _made_anew(
    rows: Sequence[Any], rewrapped: Callable[[Scope, UserKey], bytes | None]
) -> list[tuple[Scope, UserKey, bytes]]:
    anew = []
    for tenant_id, user_id, ref, wrapped in rows:
        scope = system_scope(TenantId(tenant_id), UserId(user_id))
        key = UserKey(UserRef(ref), wrapped)
        new = rewrapped(scope, key)
        if new is not None and new != wrapped:
            anew.append((scope, key, new))
    return anew
