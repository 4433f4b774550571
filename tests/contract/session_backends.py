"""The backends of the session tier that the contract suites run against, and small makers for their tests."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from memory.ids import SessionId, TenantId, TurnId, UserId
from memory.scope import Scope
from memory.turns import NewTurn, Role, Session, Turn
from storage.sessions.client import SessionClient
from storage.sessions.redis_store import RedisSessions

BACKENDS = {"valkey": "valkey", "redis": "redis_server", "cluster": "redis_cluster"}
"""By the fixture that gives each one's URL. The servers are shared: test tenants have random ids."""

NOON = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=timezone(timedelta(hours=8)))


@pytest.fixture(params=BACKENDS)
def session_url(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue(BACKENDS[request.param])


@pytest_asyncio.fixture
async def session_client(session_url: str) -> AsyncIterator[SessionClient]:
    # The machine that runs tests is busy, and deadlines have tests of their own.
    client = SessionClient(session_url, deadline_s=10.0)
    yield client
    await client.aclose()


@pytest.fixture
def sessions(session_client: SessionClient) -> RedisSessions:
    return RedisSessions(session_client)


async def kept(client: SessionClient, pattern: str) -> dict[str, int]:
    """The keys that match, on whichever server, and for how many milliseconds each still lives (-1: for ever)."""
    return {
        key.decode(): await (await server_of(client, key.decode())).pttl(key)
        async for keys in client.scan(pattern)
        for key in keys
    }


async def aged(client: SessionClient, tenant: str, left_ms: int) -> None:
    """All sessions and lists of the tenant as if time had passed until they had this long to live: no test need wait for it, or hurry
    because of it."""
    async for keys in client.scan(f"strata:session*:{{{tenant}:*"):
        for key in keys:
            server = await server_of(client, key.decode())
            if key.endswith(b":expires"):
                seconds, micros = await server.time()
                at = seconds * 1000 + micros // 1000 + left_ms
                await server.zadd(key, dict.fromkeys(await server.zrange(key, 0, -1), at), xx=True)
            await server.pexpire(key, left_ms)


async def gone(client: SessionClient, pattern: str) -> None:
    """Returns when no key matches any more."""
    async with asyncio.timeout(30):
        while await kept(client, pattern):  # noqa: ASYNC110 (Redis tells nobody)
            await asyncio.sleep(0.02)


async def server_of(client: SessionClient, key: str) -> Redis:
    """A plain client of the server that holds the key."""
    (node,) = await client.nodes.serving([key])
    return node.redis


async def every_server(client: SessionClient) -> list[Redis]:
    return [node.redis for node in await client.nodes.masters()]


def scope(tenant: str, user: str | None = "alice", session: str | None = "s1") -> Scope:
    return Scope(TenantId(tenant), user and UserId(user), session and SessionId(session))


def session_of(scope: Scope, at: datetime = NOON, **about: object) -> Session:
    return Session(scope.session, scope.user, created_at=at, expires_at=at, **about)


async def opened(
    store: RedisSessions, scope: Scope, *, ttl_s: int = 60, limit: int = 100, at: datetime = NOON
) -> Scope:
    await store.open(scope, session_of(scope, at), ttl_s, limit)
    return scope


def turn(id: str, content: str = "hello", role: Role = Role.USER, **about: object) -> NewTurn:
    return NewTurn(TurnId(id), role, content, tokens=3, at=NOON, **about)


def now() -> datetime:
    return datetime.now(UTC)


def contents(turns: object) -> list[str]:
    return [turn.content for turn in turns]  # type: ignore[attr-defined]


async def talk(store: RedisSessions, me: Scope, count: int = 6) -> tuple[Turn, ...]:
    """The user and the assistant in turns: t0 (user), t1 (assistant), ..."""
    roles = [Role.USER, Role.ASSISTANT]
    return await store.append(me, [turn(f"t{n}", f"line {n}", roles[n % 2]) for n in range(count)], 100)
