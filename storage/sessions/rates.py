"""Request rates of tenants, counted in the session tier, so that all replicas count together."""

import time

from memory.errors import Overloaded
from memory.ids import TenantId
from memory.scope import Scope
from storage.sessions import scripts
from storage.sessions.client import Call, SessionClient
from storage.sessions.keys import rate_key

_LONGEST_S = 60.0
_FULL_S = 1.0


class RequestRates:
    """At most so many requests in any minute, by tenant (lua/rate.lua)."""

    def __init__(self, client: SessionClient) -> None:
        self._client = client
        self._full: dict[TenantId, float] = {}
        client.register(scripts.RATES)

    async def hit(self, scope: Scope, per_minute: int, cost: int = 1) -> None:
        """Counts a request of scope.tenant_id; Overloaded("requests per minute") where the minute is full: then nothing is counted."""
        async with self._client.deadline():
            (answer,) = await self._client.run(counting(scope, per_minute, cost))
        try:
            check(answer)
        except Overloaded:
            self.note_full(scope)
            raise

    def note_full(self, scope: Scope) -> None:
        """A request of scope.tenant_id was just refused: for a second the next ones are counted before anything is done for them."""
        self._full[scope.tenant_id] = time.monotonic() + _FULL_S

    def full(self, scope: Scope) -> bool:
        return self._full.get(scope.tenant_id, 0.0) > time.monotonic()


def counting(scope: Scope, per_minute: int, cost: int = 1) -> Call:
    """The call that counts, for whoever has others to send. Its answer is for `check`."""
    return Call("rate", (rate_key(scope),), (per_minute, cost))


def check(answer: int) -> None:
    """Overloaded where the request was not counted, with the time after which it could be."""
    if answer:
        raise Overloaded("requests per minute", min(max(answer / 1000, 1.0), _LONGEST_S))
