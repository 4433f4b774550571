"""Request rates: per tenant, the same for all replicas."""

import asyncio

import pytest

from memory.errors import InvalidInput, Overloaded
from storage.sessions.client import SessionClient
from storage.sessions.rates import RequestRates
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
