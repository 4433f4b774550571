"""Traffic on one Strata while its stores fail: what was asked, when, and what came back."""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.end_to_end.harness import Strata, Talk, Tenant
from tests.faults.load import fact
from tests.faults.world import fresh

SETTLED_S = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """`kind`: context, search, write or turn. `degraded` is None where the answer has no such field."""

    kind: str
    began: float
    ended: float
    status: int
    degraded: tuple[str, ...] | None

    @property
    def seconds(self) -> float:
        return self.ended - self.began


@dataclass
class Client:
    """One user's client: reads and writes in turn. A write that was not acknowledged is asked again under its key."""

    tenant: Tenant
    talk: Talk
    user: str
    dice: random.Random
    answers: list[Answer] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)
    """Contents that the service said it had stored."""
    turns: list[str] = field(default_factory=list)
    """Ids of turns that it said it had appended."""
    open: list[tuple[str, str]] = field(default_factory=list)
    """(key, content) of writes that are not acknowledged yet."""

    async def live(self) -> None:
        while True:
            await self.context()
            await self.write(fresh("k"), fact(self.dice))
            await self.search()
            await self.turn()
            if self.open:
                await self.write(*self.open.pop(0))

    async def context(self) -> Answer:
        return await self._ask("context", "POST", "/v1/context", self.talk.token, json={"query": "codes"})

    async def search(self) -> Answer:
        return await self._ask("search", "POST", "/v1/memories/search", self.talk.token, json={"query": "codes"})

    async def write(self, key: str, content: str) -> Answer:
        body = {"user_id": self.user, "memories": [{"content": content}], "mode": "verbatim"}
        self.open.append((key, content))  # before it is asked: it may be broken off
        named = {"Idempotency-Key": key}
        answer = await self._ask("write", "POST", "/v1/memories", self.tenant.key, json=body, headers=named)
        if answer.status == 200:
            self.open.remove((key, content))
            self.acknowledged.append(content)
        return answer

    async def turn(self) -> Answer:
        name = fresh("turn")
        body = {"turns": [{"id": name, "role": "user", "content": "What is the code of my locker?"}]}
        answer = await self._ask("turn", "POST", f"/v1/sessions/{self.talk.id}/turns", self.talk.token, json=body)
        if answer.status == 200:
            self.turns.append(name)
        return answer

    async def _ask(self, kind: str, method: str, path: str, credential: str, **options: Any) -> Answer:
        began = time.monotonic()
        answer = await self.talk.strata.call(method, path, credential, **options)
        body = answer.json()
        degraded = tuple(body["degraded"]) if "degraded" in body else None
        heard = Answer(kind, began, time.monotonic(), answer.status_code, degraded)
        self.answers.append(heard)
        return heard

    async def finish(self) -> None:
        """What was not acknowledged is asked again until it is."""
        until = time.monotonic() + SETTLED_S
        while self.open:
            await self.write(*self.open.pop(0))
            assert time.monotonic() < until, "a write is put off for ever"
            await asyncio.sleep(0.05)


async def clients(strata: Strata, tenant: Tenant, count: int, seed: int) -> list[Client]:
    talks = [(user, await tenant.open(user)) for user in (fresh("u") for _ in range(count))]
    return [Client(tenant, talk, user, random.Random(seed + n)) for n, (user, talk) in enumerate(talks)]


@asynccontextmanager
async def under(traffic: list[Client]) -> AsyncIterator[None]:
    """They live meanwhile. One that fails fails the test."""
    tasks = [asyncio.create_task(client.live()) for client in traffic]
    try:
        yield
        for task in tasks:
            assert not task.done(), task.exception()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
