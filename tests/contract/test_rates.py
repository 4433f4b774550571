"""Request rates: per tenant, the same for all replicas."""

import asyncio
from typing import Any

import pytest

from memory.errors import InvalidInput, NotFound, Overloaded
from storage.protocols import Due
from storage.sessions import scripts
from storage.sessions.client import Call, SessionClient
from storage.sessions.rates import RequestRates
from storage.sessions.redis_store import RedisSessions
from tests.contract.session_backends import kept, scope


@pytest.fixture
def rates(session_client):
    return RequestRates(session_client)


async def test_requests_over_the_rate_are_refused_with_a_time_to_come_back(rates, tenant):
    for _ in range(5):
        await rates.hit(scope(tenant), 5)
    with pytest.raises(Overloaded) as error:
        await rates.hit(scope(tenant), 5)
    assert error.value.what == "requests per minute"
    assert 1 <= error.value.retry_after_s <= 60


async def test_the_rate_is_the_tenants_whoever_calls(rates, tenant):
    await rates.hit(scope(tenant, "alice"), 2)
    await rates.hit(scope(tenant, None, None), 2)
    with pytest.raises(Overloaded):
        await rates.hit(scope(tenant, "bob", "s7"), 2)


async def test_p24_lookalike_tenants_have_rates_of_their_own(rates, tenant):
    await rates.hit(scope(tenant), 1)
    for other in (tenant.upper(), tenant + "_", tenant + "1"):
        await rates.hit(scope(other), 1)
    with pytest.raises(InvalidInput):
        await rates.hit(scope(tenant + "/x"), 1)


async def test_replicas_count_together(session_url, tenant):
    clients = [SessionClient(session_url, deadline_s=10.0) for _ in range(3)]
    replicas = [RequestRates(client) for client in clients]
    results = await asyncio.gather(*(replicas[n % 3].hit(scope(tenant), 20) for n in range(60)), return_exceptions=True)
    assert results.count(None) == 20
    assert sum(isinstance(r, Overloaded) for r in results) == 40
    for client in clients:
        await client.aclose()


async def test_a_costly_request_counts_for_more(rates, tenant):
    await rates.hit(scope(tenant), 10, cost=8)
    with pytest.raises(Overloaded):
        await rates.hit(scope(tenant), 10, cost=3)
    await rates.hit(scope(tenant), 10, cost=2)  # the refused one was not counted


async def test_counters_do_not_stay(rates, session_client, tenant):
    await rates.hit(scope(tenant), 5)
    counters = await kept(session_client, f"strata:rate*{tenant}*")
    assert counters and all(0 < lives_ms <= 120_000 for lives_ms in counters.values())


async def test_what_reads_a_session_counts_itself_in_the_same_round_trip(
    session_client: SessionClient, rates: RequestRates, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the session is not there; and once, however often it reads."""
    sent: list[list[str]] = []
    run = SessionClient.run

    async def counted(self: SessionClient, *calls: Call, repeat: bool = False) -> list[Any]:
        sent.append([call.script for call in calls])
        return await run(self, *calls, repeat=repeat)

    monkeypatch.setattr(SessionClient, "run", counted)
    sessions, due = RedisSessions(session_client), Due(2)
    for _ in range(2):
        with pytest.raises(NotFound):
            await sessions.load(scope(tenant), 5, due)
    assert sent == [["list_touch", "load", "rate"], ["list_touch", "load"]]
    with pytest.raises(NotFound):
        await sessions.load(scope(tenant), 5, Due(2))
    with pytest.raises(Overloaded):
        await sessions.load(scope(tenant), 5, Due(2))
    with pytest.raises(Overloaded):
        await rates.hit(scope(tenant), 2)


async def test_a_refusal_is_remembered_for_a_moment(rates: RequestRates, tenant: str) -> None:
    assert not rates.full(scope(tenant))
    await rates.hit(scope(tenant), 1)
    assert not rates.full(scope(tenant))
    with pytest.raises(Overloaded):
        await rates.hit(scope(tenant), 1)
    assert rates.full(scope(tenant, "bob"))
    assert not rates.full(scope(tenant + "1"))


class Clock:
    """The script with a clock of the test's: what a minute does is looked at without waiting for one."""

    def __init__(self, client: SessionClient, key: str) -> None:
        self._client, self._key = client, key
        text = scripts.RATES["rate"].replace("redis.call('TIME')", "{tonumber(ARGV[3]) / 1000, 0}")
        assert "ARGV[3]" in text
        client.register({"rate_at": text})

    async def hit(self, at_s: float, limit: int, cost: int = 1) -> float:
        """Seconds to wait; 0 where it was counted."""
        (answer,) = await self._client.run(Call("rate_at", (self._key,), (limit, cost, int(at_s * 1000))), repeat=True)
        return answer / 1000


async def test_the_window_slides_and_the_time_to_come_back_is_kept(session_client: SessionClient, tenant: str) -> None:
    """Never more than the rate in any sixty seconds, as far as two counters can tell; and who comes back when he was
    told to is let in."""
    clock = Clock(session_client, f"strata:rate:{{{tenant}}}:test")
    for _ in range(6):
        assert await clock.hit(1000, 6) == 0
    wait = await clock.hit(1059, 6)  # the six are a minute old at 1060, and fade until 1120
    assert 1 < wait < 1.1
    assert await clock.hit(1060, 6) > 0
    assert await clock.hit(1059 + wait, 6) == 0
    wait = await clock.hit(1062, 6, cost=2)  # two more: ten seconds of the minute before must go
    assert await clock.hit(1062 + wait - 0.001, 6, cost=2) > 0
    assert await clock.hit(1062 + wait, 6, cost=2) == 0
    assert await clock.hit(1300, 6, cost=6) == 0  # everything has faded
    assert await clock.hit(1300, 6) > 0
    assert await clock.hit(1300, 6, cost=7) > 0  # more than ever fits
