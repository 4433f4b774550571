"""Users' keys at hand: fetched from the records when a user is first met, opened with the master key, kept for a while."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from memory.errors import Conflict, NotFound
from memory.ids import TenantId, UserId, UserRef
from memory.scope import Scope
from memory.seal import permutation
from storage.keys import MasterKey, make_user_key
from storage.protocols import UserKey


class UserKeys(Protocol):
    """The part of RecordStore that is needed here."""

    async def user_key(self, scope: Scope, make: Callable[[], UserKey]) -> UserKey: ...


@dataclass(frozen=True, slots=True)
class OpenKey:
    """What stands for a user inside an index, and the key that his entries are sealed under."""

    ref: UserRef
    key: bytes = field(repr=False)


class KeyRing:
    """At most `limit` open keys, each for `max_age_s`: a key that was destroyed or replaced elsewhere is soon not used here either."""

    def __init__(
        self,
        records: UserKeys,
        master: MasterKey,
        *,
        limit: int = 10_000,
        max_age_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._records, self._master = records, master
        self._limit, self._max_age_s, self._clock = limit, max_age_s, clock
        self._kept: OrderedDict[tuple[TenantId, UserId], tuple[float, OpenKey]] = OrderedDict()

    async def open(self, scope: Scope, *, fresh: bool = False) -> OpenKey:
        """The key of scope.user, made when he is first seen. NotFound("user") without one: nothing runs unfiltered.

        `fresh` asks the records whatever is kept: who writes must not use a key that was destroyed or replaced a moment ago.
        """
        name = (scope.tenant_id, scope.user)
        kept = self._kept.get(name)
        if kept is not None and not fresh and self._clock() - kept[0] < self._max_age_s:
            self._kept.move_to_end(name)
            return kept[1]
        try:
            stored = await self._records.user_key(scope, lambda: make_user_key(self._master, scope.tenant_id))
        except (NotFound, Conflict):  # he is being erased, or his tenant is
            self.forget(scope)
            raise
        opened = OpenKey(stored.ref, self._master.unwrap(stored.wrapped, scope.tenant_id, stored.ref))
        if kept is not None and kept[1] != opened:
            self.forget(scope)
        self._kept[name] = (self._clock(), opened)
        self._kept.move_to_end(name)
        while len(self._kept) > self._limit:
            self._kept.popitem(last=False)
        return opened

    def forget(self, scope: Scope) -> None:
        """After an erasure: scope.user's key, or every key of the tenant where the scope names no user, leaves this process."""
        for name in [name for name in self._kept if name[0] == scope.tenant_id and scope.user_id in (None, name[1])]:
            del self._kept[name]
        permutation.cache_clear()  # its keys are users' keys; the others are drawn again in well under a millisecond each
