"""The tenant's rate around the context call, which counts itself with its first read."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.deployments.edge.world import World


@pytest.fixture
async def slow(world: World) -> AsyncIterator[tuple[World, str, dict[str, Any]]]:
    """A tenant of three requests a minute, one of which has opened a session."""
    key = await world.declare(f"{world.tenant}_slow", policy={"quotas": {"requests_per_minute": 3}})
    opened = await world.open(credential=key)
    yield world, key, opened


async def test_context_calls_are_counted_and_refused_over_the_rate(slow: tuple[World, str, dict[str, Any]]) -> None:
    world, _, opened = slow
    answers = [await world.call("POST", "/v1/context", opened["token"], json={"query": "q"}) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 60


async def test_a_call_that_is_refused_before_it_reads_anything_counts_as_well(
    slow: tuple[World, str, dict[str, Any]],
) -> None:
    world, _, opened = slow
    for body in ({"nonsense": 1}, {"query": 5}):
        answer = await world.call("POST", "/v1/context", opened["token"], json=body)
        assert answer.status_code == 422, answer.text
    answer = await world.call("POST", "/v1/context", opened["token"], json={"query": "q"})
    assert answer.status_code == 429


async def test_p39_over_the_rate_nothing_is_asked_of_the_model(
    slow: tuple[World, str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first refusal may still have begun to encode; the next ones begin nothing."""
    world, _, opened = slow
    for _ in range(3):
        await world.call("POST", "/v1/context", opened["token"], json={"query": "q"})
    asked = []
    queries = type(world.services.embedder).queries

    async def counted(self: Any, ticket: Any, texts: Any) -> Any:
        asked.append(texts)
        return await queries(self, ticket, texts)

    monkeypatch.setattr(type(world.services.embedder), "queries", counted)
    answer = await world.call("POST", "/v1/context", opened["token"], json={"query": "q"})
    assert (answer.status_code, asked) == (429, [])
