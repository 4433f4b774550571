"""What the two HTTP applications have in common: opening the stores inside a replica, and closing them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from deployments.background import Background
from deployments.edge.authenticate import Authenticator
from deployments.indexes import LiveIndexes
from deployments.inference_client import EmbeddingModel, RerankerHandle
from deployments.policies import PolicyCache
from deployments.polling import poll
from deployments.services import Services, utc_now
from deployments.settings import StoreSettings
from deployments.stores import open_sessions, open_stores
from deployments.telemetry.stores import watched
from deployments.versions import begin, catch_up
from memory.encoding import ModelCard
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
    """Every store, what is polled of them, and the authenticator; all closed at the end. ConfigError where one is unfit."""
    async with contextlib.AsyncExitStack() as stack:
        redis = await stack.enter_async_context(open_sessions(settings))
        stores = await stack.enter_async_context(open_stores(settings))
        card = await wait_for_model(embedder)
        # P18: another model stops here, not at the first question
        switched = await begin(stores.versions, stores.records, stores.tenants, card, utc_now())
        indexes = await LiveIndexes.open(settings, stores.versions, stores.keys, card.key, card.dimension)
        stack.push_async_callback(indexes.aclose)
        policies = PolicyCache(stores.tenants)
        services = Services(
            sessions=watched(RedisSessions(redis), "sessions"),
            idempotency=watched(RedisIdempotency(redis), "idempotency"),
            records=stores.records,
            tenants=stores.tenants,
            index=indexes.active,
            embedder=embedder,
            policies=policies,
            authenticator=Authenticator(
                stores.tenants, policies, stores.secrets.token_keys, stores.secrets.pepper, utc_now
            ),
            rates=watched(RequestRates(redis), "rates"),
            receipts=stores.secrets.receipts,
            deadlines=settings.deadlines,
            background=Background(),
            reranker=None if reranker_app is None else RerankerHandle(reranker_app),
            others=lambda: indexes.others,
            retired=lambda: indexes.retired,
        )
        stack.push_async_callback(services.background.close)
        if switched:
            services.background.submit(_catch_up(services))
        refreshes = {"policies": policies.refresh, "indexes": indexes.refresh}
        stack.push_async_callback(_ended, asyncio.create_task(poll(settings.policy_poll_s, refreshes)))
        yield services


async def _catch_up(services: Services) -> None:
    if await catch_up(services.records, services.tenants, services.index):
        services.wake_curator()


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
