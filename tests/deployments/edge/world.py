"""The whole edge over real stores: a bundled Valkey, SQLite, the local index. Two tenants, and whatever clients a test wants.

The embedding model is away: what the edge promises must not hang on it, and answers say `degraded`.
"""

import base64
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from deployments.background import Background
from deployments.edge.apps import context_app, memory_app
from deployments.edge.authenticate import Authenticator
from deployments.edge.credentials import Pepper, TokenKeys, key_digest, new_key, split_key
from deployments.policies import PolicyCache
from deployments.services import Services, utc_now
from deployments.settings import Deadlines
from memory.calibration import ModelStatistics
from memory.encoding import EncodedPassage, EncodedQuery, ModelCard, Passage
from memory.errors import Unavailable
from memory.ids import TenantId
from memory.scope import Grant, system_scope
from memory.ticket import Ticket
from storage.index.blind import BlindIndex
from storage.index.keyring import KeyRing
from storage.index.local import LocalIndex
from storage.keys import MasterKey
from storage.protocols import KeyRecord, TenantRecord
from storage.receipts import ReceiptSigner
from storage.records import SqlRecords, SqlTenants, create_engine
from storage.sessions.client import SessionClient
from storage.sessions.idempotency import RedisIdempotency
from storage.sessions.rates import RequestRates
from storage.sessions.redis_store import RedisSessions

PEPPER = Pepper(b"p" * 32)
TOKENS = TokenKeys({"k1": "a" * 64}, "k1")
FOREIGN_TOKENS = TokenKeys({"k1": "z" * 64}, "k1")


class NoModel:
    """An embedder that is away."""

    async def card(self) -> ModelCard:
        raise Unavailable("embedder")

    async def statistics(self) -> ModelStatistics:
        raise Unavailable("embedder")

    async def queries(self, ticket: Ticket, texts: Sequence[str]) -> list[EncodedQuery]:
        raise Unavailable("embedder")

    async def passages(self, ticket: Ticket, passages: Sequence[Passage]) -> list[EncodedPassage]:
        raise Unavailable("embedder")


@dataclass
class World:
    services: Services
    memory: FastAPI
    context: FastAPI
    tenant: str
    keys: dict[str, str] = field(default_factory=dict)

    async def declare(self, tenant: str, grants: Sequence[Grant] = (Grant.MEMORY,), policy: Any = None) -> str:
        """A tenant with one key, which is answered."""
        key = new_key()
        key_id, secret = split_key(key)
        record = KeyRecord(key_id, TenantId(tenant), "main", key_digest(secret, PEPPER), frozenset(grants))
        await self.services.tenants.apply(
            system_scope(), TenantRecord(TenantId(tenant), tenant, policy or {}, 0), [record]
        )
        await self.services.policies.refresh()
        self.keys[tenant] = key
        return key

    @property
    def key(self) -> str:
        return self.keys[self.tenant]

    async def call(self, method: str, path: str, credential: str | None = None, **options: Any) -> httpx.Response:
        """With the tenant's key unless another credential is given; "" for none."""
        credential = self.key if credential is None else credential
        headers = {**({"Authorization": f"Bearer {credential}"} if credential else {}), **options.pop("headers", {})}
        app = self.context if path.startswith("/v1/context") else self.memory
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://edge") as http:
            return await http.request(method, path, headers=headers, **options)

    async def open(
        self, user: str = "alice", session: str | None = None, credential: str | None = None, **fields: Any
    ) -> dict[str, Any]:
        body = {"user_id": user, **({"session_id": session} if session else {}), **fields}
        answer = await self.call("POST", "/v1/sessions", credential, json=body)
        assert answer.status_code == 201, answer.text
        opened: dict[str, Any] = answer.json()
        return opened


@asynccontextmanager
async def opened(url: str, records_url: str, folder: Path, tenant: str) -> AsyncIterator[World]:
    redis = SessionClient(url, deadline_s=10.0)
    engine = create_engine(records_url, 10.0)
    records, tenants = SqlRecords(engine), SqlTenants(engine)
    index = LocalIndex(folder / "index", "none_384", 384, 10.0)
    master = MasterKey.from_base64(base64.b64encode(os.urandom(32)).decode())
    policies = PolicyCache(tenants)
    services = Services(
        sessions=RedisSessions(redis),
        idempotency=RedisIdempotency(redis),
        records=records,
        tenants=tenants,
        index=BlindIndex(index, KeyRing(records, master)),
        embedder=NoModel(),
        policies=policies,
        authenticator=Authenticator(tenants, policies, TOKENS, PEPPER, utc_now),
        rates=RequestRates(redis),
        deadlines=Deadlines(),
        background=Background(),
        receipts=ReceiptSigner.from_base64(base64.b64encode(os.urandom(32)).decode()),
    )
    world = World(services, memory_app(), context_app(), tenant)
    world.memory.state.services = world.context.state.services = services
    await world.declare(tenant)
    try:
        yield world
    finally:
        await services.background.close()
        await index.aclose()
        await engine.dispose()
        await redis.aclose()
