"""The session tier: appending a turn, and the hot path's read. Floor: one PING over the same connection."""

import secrets
from datetime import UTC, datetime, timedelta

from benchmarks.phrases import questions
from benchmarks.stores.measuring import Figure, median_ms
from memory.ids import SessionId, TenantId, TurnId, UserId
from memory.scope import Scope
from memory.turns import NewTurn, Role, Session
from storage.sessions.client import SessionClient
from storage.sessions.redis_store import RedisSessions

KEPT_TURNS = 50
READ_TURNS = 20


async def measure(backend: str, url: str, times: int) -> list[Figure]:
    client = SessionClient(url, deadline_s=10)
    try:
        store = RedisSessions(client)
        now = datetime.now(UTC)
        scope = Scope(TenantId(f"bench_{secrets.token_hex(6)}"), UserId("alice"), SessionId("s1"))
        session = Session(scope.session, scope.user, created_at=now, expires_at=now + timedelta(hours=1))
        await store.open(scope, session, 3600, 10)
        lines = questions(KEPT_TURNS)
        turns = [
            NewTurn(TurnId(f"k{n}"), (Role.USER, Role.ASSISTANT)[n % 2], line, tokens=12, at=now)
            for n, line in enumerate(lines)
        ]
        await store.append(scope, turns, 100_000)
        floor = await median_ms(lambda _: client.ping(), times)
        read = await median_ms(lambda _: store.load(scope, READ_TURNS), times)

        async def append(number: int) -> None:
            turn = NewTurn(TurnId(f"t{number}"), Role.USER, lines[number % KEPT_TURNS], tokens=12, at=now)
            await store.append(scope, [turn], 100_000)

        appended = await median_ms(append, times)
        await store.drop(scope)
        return [
            Figure(backend, "append a turn", appended, floor, "PING"),
            Figure(backend, f"read {READ_TURNS} of {KEPT_TURNS} turns, state, session", read, floor, "PING"),
        ]
    finally:
        await client.aclose()
