"""Request rates of tenants, counted in the session tier, so that all replicas count together."""

import time
from typing import Any

from limits import RateLimitItemPerMinute
from limits.aio.storage import RedisStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter

from memory.errors import Overloaded
from memory.ids import checked_id
from memory.scope import Scope
from storage.sessions.client import SessionClient


class RequestRates:
    """At most so many requests in any minute, by tenant. A sliding window of two counters: no burst of twice the rate where
    two fixed windows meet, and two keys whatever the rate."""

    def __init__(self, client: SessionClient) -> None:
        self._client = client
        # The scheme is only a name here: the connections are the client's own.
        pool: Any = client.pool  # an option that the library takes but does not declare
        storage = RedisStorage(
            "async+redis://", implementation="redispy", key_prefix="strata:rate", connection_pool=pool
        )
        self._limiter = SlidingWindowCounterRateLimiter(storage)

    async def hit(self, scope: Scope, per_minute: int, cost: int = 1) -> None:
        """Counts a request of scope.tenant_id; Overloaded("requests per minute") where the minute is full: then nothing is counted."""
        tenant = checked_id(scope.tenant_id, "tenant_id")
        item = RateLimitItemPerMinute(per_minute)
        async with self._client.deadline():
            if await self._limiter.hit(item, tenant, cost=cost):
                return
            stats = await self._limiter.get_window_stats(item, tenant)
        raise Overloaded("requests per minute", min(max(stats.reset_time - time.time(), 1.0), 60.0))
