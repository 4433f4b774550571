"""Request rates of tenants, counted in the session tier, so that all replicas count together."""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from limits import RateLimitItemPerMinute
from limits.aio.storage import RedisStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter

from memory.errors import Overloaded
from memory.ids import checked_id
from memory.scope import Scope
from storage.sessions.client import Call, SessionClient


class RequestRates:
    """At most so many requests in any minute, by tenant. A sliding window of two counters: no burst of twice the rate where
    two fixed windows meet, and two keys whatever the rate."""

    def __init__(self, client: SessionClient) -> None:
        self._client = client
        self._limiter = SlidingWindowCounterRateLimiter(_Counters(client))

    async def hit(self, scope: Scope, per_minute: int, cost: int = 1) -> None:
        """Counts a request of scope.tenant_id; Overloaded("requests per minute") where the minute is full: then nothing is counted."""
        tenant = checked_id(scope.tenant_id, "tenant_id")
        item = RateLimitItemPerMinute(per_minute)
        async with self._client.deadline():
            if await self._limiter.hit(item, tenant, cost=cost):
                return
            stats = await self._limiter.get_window_stats(item, tenant)
        raise Overloaded("requests per minute", min(max(stats.reset_time - time.time(), 1.0), 60.0))


class _Counters(RedisStorage):
    """The library's counters. Its scripts are run by the client, so that they find their way under Sentinel and in a cluster: both
    keys of a window have one hash tag."""

    def __init__(self, client: SessionClient) -> None:
        self._client = client
        super().__init__("async+redis://", implementation="redispy", key_prefix="strata:rate")

    def configure_bridge(self) -> None:
        bridge: Any = self.bridge
        bridge.connection_getter = lambda readonly: self

    def register_script(self, text: bytes) -> Callable[[Sequence[str], Sequence[int]], Awaitable[Any]]:
        """As the library's bridge asks a Redis client to."""
        name = f"rate_{hash(text)}"
        self._client.register({name: text.decode()})

        async def run(keys: Sequence[str], args: Sequence[int]) -> Any:
            return (await self._client.run(Call(name, keys, args)))[0]

        return run
