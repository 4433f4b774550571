"""What the two HTTP applications have in common: opening the stores inside a replica, and closing them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from deployments.background import Background
from deployments.bootstrap import check_home, read_secrets, records_url, sessions_url
from deployments.edge.authenticate import Authenticator
from deployments.inference_client import EmbeddingModel, RerankerHandle
from deployments.policies import PolicyCache
from deployments.services import Services, utc_now
from deployments.settings import StoreSettings
from memory.encoding import ModelCard
from storage.index.blind import BlindIndex, KeyRing
from storage.index.local import LocalIndex
from storage.records import SqlRecords, SqlTenants, check_schema, create_engine
from storage.sessions.client import SessionClient
from storage.sessions.idempotency import RedisIdempotency
from storage.sessions.rates import RequestRates
from storage.sessions.redis_store import RedisSessions

MODEL_WAIT_S = 120.0


async def wait_for_model(embedder: EmbeddingModel) -> ModelCard:
    """The index is of one model: nothing is opened before the Embedder says which. Applications start in any order."""
    async with asyncio.timeout(MODEL_WAIT_S):
        while True:
            with contextlib.suppress(Exception):
                return await embedder.card()
            await asyncio.sleep(0.2)


@contextlib.asynccontextmanager
async def open_services(
    settings: StoreSettings, embedder: EmbeddingModel, reranker_app: str | None = None
) -> AsyncIterator[Services]:
    """Every store, the policies' poll and the authenticator; all closed at the end. ConfigError where one is unfit."""
    check_home(settings.home)
    master, pepper, token_keys = await asyncio.to_thread(read_secrets, settings)
    redis = SessionClient(await asyncio.to_thread(sessions_url, settings), deadline_s=settings.deadlines.sessions_s)
    engine = create_engine(records_url(settings), settings.deadlines.records_s)
    await check_schema(engine)
    card = await wait_for_model(embedder)
    records, tenants = SqlRecords(engine), SqlTenants(engine)
    local = LocalIndex(settings.home / "index", card.key, card.dimension, settings.deadlines.index_s)
    await local.check()  # P18: an index of another model stops the start, not the first question
    policies = PolicyCache(tenants, settings.policy_poll_s)
    authenticator = Authenticator(tenants, policies, token_keys, pepper, utc_now)
    services = Services(
        sessions=RedisSessions(redis),
        idempotency=RedisIdempotency(redis),
        records=records,
        tenants=tenants,
        index=BlindIndex(local, KeyRing(records, master)),
        embedder=embedder,
        policies=policies,
        authenticator=authenticator,
        rates=RequestRates(redis),
        deadlines=settings.deadlines,
        background=Background(),
        reranker=None if reranker_app is None else RerankerHandle(reranker_app),
    )
    poll = asyncio.create_task(policies.poll())
    try:
        yield services
    finally:
        await services.background.close()
        poll.cancel()
        await asyncio.gather(poll, return_exceptions=True)
        local.close()
        await engine.dispose()
        await redis.aclose()
