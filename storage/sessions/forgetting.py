"""Forgetting a user or a tenant: what is listed at once, then whatever a walk through all keys still finds.

A fence keeps out what is under way. A user's fence is a key in the slot of his list, looked at by the scripts that begin and confirm
a session and that keep an answer; a session is not there for anybody before it is confirmed, and an unconfirmed one ends by itself
within the deadline of a call. A tenant's fence is in a slot of its own: it is looked at between the making of a session and its
confirmation, so that the walk, which begins after it is up, finds what did not see it.
"""

from collections.abc import Iterable

from memory.ids import SessionId
from memory.scope import Grant, Scope
from storage.sessions.client import Call, SessionClient
from storage.sessions.keys import (
    claims_pattern,
    fenced_listing_keys,
    listing_keys,
    session_keys,
    session_of,
    sessions_pattern,
    tenant_fence,
    tenant_patterns,
    user_fence,
)

_BATCH = 100


def milliseconds(seconds: float) -> int:
    """Rounded up: a fence may stand a little longer, never shorter."""
    return max(0, -int(-seconds * 1000 // 1))


async def forget_sessions(client: SessionClient, scope: Scope, fence_s: float) -> int:
    """All sessions of scope.user, the listed ones first. How many there were."""
    listing = listing_keys(scope)
    async with client.deadline():
        (listed,) = await client.run(
            Call("list_forget", fenced_listing_keys(scope), (milliseconds(fence_s),)), repeat=True
        )
    gone = await _drop(client, scope, (SessionId(name.decode()) for name in listed))
    async for keys in client.scan(sessions_pattern(scope)):
        names = {session_of(key)[0] for key in keys}
        gone += await _drop(client, scope, names)
        async with client.deadline():  # where there is no fence, one may have been opened since
            await client.run(Call("list_take", listing, sorted(names)), repeat=True)
    return gone


async def count_sessions(client: SessionClient, scope: Scope) -> int:
    """Those that a walk finds, and those that the list still names."""
    async with client.deadline():
        (listed,) = await client.run(Call("list_all", listing_keys(scope)), repeat=True)
    found = {SessionId(name.decode()) for name in listed}
    async for keys in client.scan(sessions_pattern(scope)):
        found |= {session_of(key)[0] for key in keys}
    return len(found)


async def forget_claims(client: SessionClient, scope: Scope) -> int:
    """All claims of scope.user with their answers. How many there were."""
    gone = 0
    async for keys in client.scan(claims_pattern(scope)):
        gone += await _unlink(client, keys)
    return gone


async def count_claims(client: SessionClient, scope: Scope) -> int:
    found: set[bytes] = set()
    async for keys in client.scan(claims_pattern(scope)):
        found.update(keys)
    return len(found)


async def forget_tenant(client: SessionClient, scope: Scope, fence_s: float) -> int:
    """Every key of the tenant, rates aside. How many sessions there were."""
    scope.require(Grant.SYSTEM)
    sessions, listings, claims = tenant_patterns(scope)
    if fence_s > 0:
        async with client.deadline():
            await client.run(Call("fence", (tenant_fence(scope),), (milliseconds(fence_s),)), repeat=True)
    gone = 0
    async for keys in client.scan(sessions):
        by_user: dict[Scope, set[SessionId]] = {}
        for name, user in map(session_of, keys):
            if user is not None:
                by_user.setdefault(Scope(scope.tenant_id, user), set()).add(name)
        for owner, names in by_user.items():
            gone += await _drop(client, owner, names)
        await _unlink(client, (key for key in keys if session_of(key)[1] is None))
    for pattern in (listings, claims):
        async for keys in client.scan(pattern):
            await _unlink(client, keys)
    return gone


async def lift_fence(client: SessionClient, scope: Scope) -> None:
    """Of scope.user, or of the tenant where the scope names none."""
    scope.require(Grant.SYSTEM)
    fence = tenant_fence(scope) if scope.user_id is None else user_fence(scope)
    async with client.deadline():
        await client.run(Call("forget", (fence,)), repeat=True)


async def count_tenant(client: SessionClient, scope: Scope) -> int:
    """How many keys of the tenant there are, rates and fences aside."""
    scope.require(Grant.SYSTEM)
    found: set[bytes] = set()
    for pattern in tenant_patterns(scope):
        async for keys in client.scan(pattern):
            found.update(keys)
    return len(found)


async def _drop(client: SessionClient, scope: Scope, names: Iterable[SessionId]) -> int:
    """Whole sessions of scope.user, each at once: an append finds all of one or nothing. How many there were."""
    calls = [Call("drop", session_keys(Scope(scope.tenant_id, scope.user, name))) for name in names]
    return await _in_batches(client, calls)


async def _unlink(client: SessionClient, keys: Iterable[bytes]) -> int:
    return await _in_batches(client, [Call("forget", (key.decode(),)) for key in keys])


async def _in_batches(client: SessionClient, calls: list[Call]) -> int:
    """Each batch has the deadline of one call. May be repeated: what is gone is gone."""
    gone = 0
    for first in range(0, len(calls), _BATCH):
        async with client.deadline():
            gone += sum(await client.run(*calls[first : first + _BATCH], repeat=True))
    return gone
