"""Users as an index knows them."""

from collections.abc import Callable

from sqlalchemy import Connection, insert, select, update

from memory.ids import UserRef
from memory.scope import Scope
from storage.protocols import UserKey
from storage.records.base import OnDatabase, owned, owner
from storage.records.schema import users


class Users(OnDatabase):
    async def user_key(self, scope: Scope, make: Callable[[], UserKey]) -> UserKey:
        """The key of scope.user; stored from `make()` when the user is first seen (two first sights at once agree)."""
        query = select(users.c.ref, users.c.wrapped).where(owned(users, scope))
        row = await self._database.read(lambda connection: connection.execute(query).first())
        if row is not None and row.wrapped is not None:
            return UserKey(UserRef(row.ref), row.wrapped)
        made = make()
        now = self._now()
        tenant_id, user_id = owner(scope)

        def work(connection: Connection) -> UserKey:
            row = connection.execute(query.with_for_update()).first()
            if row is None:
                connection.execute(
                    insert(users).values(
                        tenant_id=tenant_id, user_id=user_id, ref=made.ref, wrapped=made.wrapped, created_at=now
                    )
                )
            elif row.wrapped is None:
                connection.execute(update(users).where(owned(users, scope)).values(ref=made.ref, wrapped=made.wrapped))
            else:
                return UserKey(UserRef(row.ref), row.wrapped)
            return made

        return await self._database.write(work)
