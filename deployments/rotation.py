"""New keys: every user's key wrapped under a new master key, or one user's key replaced and his entries sealed anew."""

import asyncio
from collections.abc import Callable, Sequence

from memory.errors import NotFound, StrataError
from memory.ids import MemoryId
from memory.scope import Scope, system_scope
from storage.index.blind import BlindIndex
from storage.keys import MasterKey, make_user_key
from storage.protocols import Filters, Records, UserKey

REWRAP_STEP = 200
PAGE = 200
POLL_S = 0.2

Watch = Callable[[str, int, int], None]
"""(stage, done, in all; 0: not known)."""


class Stalled(StrataError):
    """Nothing was rebuilt for a while: no Curator seems to run. The new key is in force, and the work waits for one."""

    slug = "stalled"

    @property
    def detail(self) -> str:
        return (
            "The user has his new key, but nobody seals his entries with it: see that Strata runs, then rotate again."
        )


async def rewrap(records: Records, master: MasterKey, watch: Watch) -> int:
    """Every key that an older master key wrapped, under the current one. The index is not touched. Returns how many; run again after
    it was cut off, it finds those that are left. ConfigError where a key was wrapped under a master key that is not configured."""
    done = 0

    def rewrapped(scope: Scope, key: UserKey) -> bytes | None:
        return master.rewrapped(key.wrapped, scope.tenant_id, key.ref)

    while step := await records.rewrap_keys(system_scope(), rewrapped, REWRAP_STEP):
        done += step
        watch("wrapping", done, 0)
    return done


async def rotate(
    records: Records,
    indexes: Sequence[BlindIndex],
    master: MasterKey,
    scope: Scope,
    grace_s: float,
    watch: Watch,
    stall_s: float = 60.0,
) -> int:
    """A new key and reference for scope.user; the Curator seals his entries anew, and what the indexes (the active one first) still
    hold under the old reference goes. Returns how many entries he has. NotFound("user"); Stalled.

    What may still seal with the old key is a worker that was asleep since before: its entries are looked for after `grace_s`.
    """
    old = await records.replace_key(scope, make_user_key(master, scope.tenant_id))
    if old is None:
        raise NotFound("user")
    for other in indexes[1:]:  # nobody asks these for him under his new name
        await other.remove_user(scope, old.ref)
    ids = await _ids(records, scope)
    await _rebuilt(records, scope, ids, watch, stall_s)
    watch("waiting for stragglers", 0, 0)
    await asyncio.sleep(grace_s)
    found = 0
    for index in indexes:
        found += await index.remove_user(scope, old.ref)
        await index.scrub(scope)
    if found:  # one of them may have replaced an entry that was sealed anew
        await records.mark(scope, await _ids(records, scope))
    return len(ids)


async def _ids(records: Records, scope: Scope) -> list[MemoryId]:
    ids: list[MemoryId] = []
    cursor = None
    while True:
        page = await records.page(scope, Filters(), PAGE, cursor)
        ids += [memory.id for memory in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return ids


async def _rebuilt(records: Records, scope: Scope, ids: Sequence[MemoryId], watch: Watch, stall_s: float) -> None:
    """Until none of `ids` waits for the index any more."""
    loop = asyncio.get_running_loop()
    left, until = len(ids) + 1, loop.time() + stall_s
    while True:
        waiting = sum(1 for row in await records.rows_of(scope, ids) if row.live and row.waiting)
        watch("sealing anew", len(ids) - waiting, len(ids))
        if not waiting:
            return
        if waiting < left:
            left, until = waiting, loop.time() + stall_s
        elif loop.time() > until:
            raise Stalled()
        await asyncio.sleep(POLL_S)
