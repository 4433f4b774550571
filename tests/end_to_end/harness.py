"""All of Strata in this process, nothing pretended: real model, real Valkey, real SQLite, both HTTP applications, the Curator."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from deployments.bootstrap import prepare_stores
from deployments.curation.curator import Curator
from deployments.curation.workers import Workers
from deployments.edge.apps import context_app, memory_app
from deployments.inference_client import EmbeddingModel
from deployments.references import read_secrets
from deployments.replica import open_services
from deployments.services import Services
from deployments.settings import CuratorSettings, Deadlines, StoreSettings
from deployments.tenancy import KeyFile, TenantFile, declare, key_text
from memory.policy import Policy
from memory.scope import Grant, system_scope

PATIENT = Deadlines(sessions_s=10, records_s=20, index_s=10, embed_s=20, request_s=60)
"""The suite shares its processors; deadlines have tests of their own."""
CURATION = CuratorSettings(poll_s=0.05, grace_s=0.1, lease_s=10, sweep_s=0.05, sweep_rest_s=0.001)


@dataclass
class Strata:
    settings: StoreSettings
    services: Services
    memory: FastAPI
    context: FastAPI
    workers: Workers

    @property
    def curator(self) -> Curator:
        return self.workers.curator

    async def tenant(self, name: str, policy: Policy | None = None, grants: frozenset[Grant] | None = None) -> "Tenant":
        key = KeyFile(
            name="main", secret=f"file:secrets/{name}.key", generate=True, grants=grants or frozenset({Grant.MEMORY})
        )
        file = TenantFile(id=name, policy=policy or Policy(), keys=(key,))
        await declare(self.services.tenants, file, self.settings.home, read_secrets(self.settings).pepper)
        await self.services.policies.refresh()
        return Tenant(self, name, key_text(key, self.settings.home))

    async def settle(self) -> None:
        """Until the index is equal to SQL, verification of deletes aside."""
        for _ in range(50):
            if not await self.curator.step() and not (await self.services.records.backlog(system_scope())).entries:
                return
            await asyncio.sleep(0.01)

    async def receipt(self, receipt_id: str, credential: str) -> Any:
        """The receipt once it is complete: the Curator and the Eraser work until then."""
        async with asyncio.timeout(60):
            while True:
                await self.workers.curator.step()
                await self.workers.eraser.step()
                answer = await self.call("GET", f"/v1/receipts/{receipt_id}", credential)
                assert answer.status_code == 200, answer.text
                if answer.json()["completed_at"] is not None:
                    return answer.json()
                await asyncio.sleep(0.02)

    async def call(self, method: str, path: str, credential: str, **options: Any) -> httpx.Response:
        app = self.context if path.startswith("/v1/context") else self.memory
        headers = {"Authorization": f"Bearer {credential}", **options.pop("headers", {})}
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://strata", timeout=60) as http:
            return await http.request(method, path, headers=headers, **options)


@dataclass
class Tenant:
    strata: Strata
    id: str
    key: str

    async def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        return await self.strata.call(method, path, self.key, **options)

    async def open(self, user: str, **fields: Any) -> "Talk":
        answer = await self.call("POST", "/v1/sessions", json={"user_id": user, **fields})
        assert answer.status_code == 201, answer.text
        return Talk(self.strata, answer.json()["session_id"], answer.json()["token"])


@dataclass
class Talk:
    """One session, by its token."""

    strata: Strata
    id: str
    token: str

    async def call(self, method: str, path: str, **options: Any) -> Any:
        """The answer's JSON; anything but success fails the test."""
        answer = await self.strata.call(method, path, self.token, **options)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    async def say(self, *texts: str, role: str = "user", **fields: Any) -> Any:
        """Turns of one role; answers what the turns call answers."""
        turns = [{"role": role, "content": text} for text in texts]
        return await self.call("POST", f"/v1/sessions/{self.id}/turns", json={"turns": turns, **fields})

    async def context(self, query: str | None = None, **fields: Any) -> Any:
        return await self.call("POST", "/v1/context", json=({"query": query} if query else {}) | fields)

    async def recalled(self, query: str) -> list[str]:
        """The contents that the context call puts into the prompt for `query`, outdated ones aside."""
        answer = await self.context(query)
        return [memory["content"] for memory in answer["memories"] if memory["status"] == "active"]

    async def search(self, query: str, **fields: Any) -> list[Any]:
        answer = await self.call("POST", "/v1/memories/search", json={"query": query, **fields})
        items: list[Any] = answer["items"]
        return items

    async def memories(self, **filters: Any) -> list[Any]:
        items: list[Any] = (await self.call("GET", "/v1/memories", params=filters))["items"]
        return items

    async def contents(self, status: str = "active") -> list[str]:
        """What is remembered, oldest first."""
        return [memory["content"] for memory in reversed(await self.memories(status=status))]


@asynccontextmanager
async def strata(home: Path, embedder: EmbeddingModel, **settings: Any) -> AsyncIterator[Strata]:
    chosen = StoreSettings(home=home, deadlines=settings.pop("deadlines", PATIENT), **settings)
    await asyncio.to_thread(prepare_stores, chosen)
    async with open_services(chosen, embedder) as services:
        workers = Workers("test", services, CURATION)
        apps = (memory_app(60), context_app(60))
        for app in apps:
            app.state.services = services
        yield Strata(chosen, services, *apps, workers)
