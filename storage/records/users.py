"""Users as an index knows them."""

from collections.abc import Callable

from sqlalchemy import Connection, update

from memory.errors import Conflict, NotFound
from memory.ids import UserRef
from memory.scope import Scope
from storage.protocols import UserKey
from storage.records.base import OnDatabase, UserRow, add_user, owned, user_row
from storage.records.schema import users


class Users(OnDatabase):
    async def user_key(self, scope: Scope, make: Callable[[], UserKey]) -> UserKey:
        """The key of scope.user; stored from `make()` when the user is first seen (two first sights at once agree).
        NotFound("user") while the user or the tenant is being erased: what is destroyed is not made again."""
        found = await self._database.read(lambda connection: user_row(connection, scope, lock=False))
        key = _key_of(found)
        if key is not None:
            return key
        made = make()
        now = self._now()

        def work(connection: Connection) -> UserKey:
            row = user_row(connection, scope)
            key = _key_of(row)
            if key is not None:
                return key
            if row is not None:
                connection.execute(update(users).where(owned(users, scope)).values(ref=made.ref, wrapped=made.wrapped))
                return made
            try:
                add_user(connection, scope, now, ref=made.ref, wrapped=made.wrapped)
            except Conflict:
                raise NotFound("user") from None
            return made

        return await self._database.write(work)


def _key_of(row: UserRow | None) -> UserKey | None:
    if row is not None and row.fenced:
        raise NotFound("user")
    if row is None or row.ref is None or row.wrapped is None:
        return None
    return UserKey(UserRef(row.ref), row.wrapped)
