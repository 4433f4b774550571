"""Requests cancelled in mid-query, through the whole application: no connection answers with another request's rows, and the pools are
whole afterwards (P36). On MariaDB and Redis, whose replies travel on pooled connections.
"""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory.policy import MergePolicy, Policy
from tests.end_to_end.harness import Talk
from tests.faults import stories
from tests.faults.load import fact
from tests.faults.places import own_database
from tests.faults.world import Place, World, fresh, opened

USERS, ROUNDS, AT_ONCE = 6, 60, 10
SEED = 36


@pytest.fixture(scope="module")
def servers(mariadb: str, redis_server: str, shared_home: Path, tiny: Path) -> Iterator[Place]:
    with own_database(mariadb) as url:
        yield Place(shared_home, tiny, url, redis_server)


async def test_p36_a_cancelled_request_leaves_its_reply_to_nobody(servers: Place):
    dice = random.Random(SEED)
    async with opened(servers) as world:
        tenant = await world.strata.tenant(fresh("t"), Policy(merge=MergePolicy(same_fact=1.0)), stories.GRANTS)
        talks = [await tenant.open(f"user{number}") for number in range(USERS)]
        own: list[set[str]] = []
        for number, talk in enumerate(talks):
            facts = {fact(dice) for _ in range(5)}
            body = {"user_id": f"user{number}", "memories": [{"content": one} for one in facts], "mode": "verbatim"}
            assert (await tenant.call("POST", "/v1/memories", json=body)).status_code == 200
            await talk.call("POST", f"/v1/sessions/{talk.id}/turns", json=_turn(sorted(facts)[0]))
            own.append(facts)
        await stories.drain(world)

        cancelled = answered = 0
        for _ in range(ROUNDS):
            asked = [dice.randrange(USERS) for _ in range(AT_ONCE)]
            tasks = [asyncio.create_task(_ask(talks[user], dice.randrange(3))) for user in asked]
            for task in dice.sample(tasks, AT_ONCE // 2):
                await asyncio.sleep(dice.uniform(0, 0.01))
                task.cancel()
            for user, answer in zip(asked, await asyncio.gather(*tasks, return_exceptions=True), strict=True):
                if isinstance(answer, asyncio.CancelledError):
                    cancelled += 1
                    continue
                assert not isinstance(answer, BaseException), answer
                answered += 1
                assert answer, "an answer without what is known of its user"
                assert answer <= own[user]
        assert cancelled > ROUNDS, "too few were cancelled to prove anything"
        print(f"{cancelled} cancelled, {answered} answered with their own rows")
        await _whole(world, talks, own)


def _turn(content: str) -> dict[str, object]:
    return {"turns": [{"role": "assistant", "content": content}]}


async def _ask(talk: Talk, kind: int) -> set[str]:
    """Contents that one read of the user's answers with."""
    match kind:
        case 0:
            return {item["content"] for item in (await talk.call("GET", "/v1/memories"))["items"]}
        case 1:
            page = await talk.call("GET", f"/v1/sessions/{talk.id}/turns")
            return {turn["content"] for turn in page["items"]}
    items = (await talk.call("POST", "/v1/memories/search", json={"query": "code", "min_score": 0.0}))["items"]
    listed = (await talk.call("GET", "/v1/memories", params={"limit": 1}))["items"]
    return {item["content"] for item in (*items, *listed)}


async def _whole(world: World, talks: list[Talk], own: list[set[str]]) -> None:
    """Nothing is still lent out, and as many requests as ever are answered at once."""
    server = world.strata.services.records._database._server  # type: ignore[attr-defined]
    pool = server._engine.pool
    await _all_back(pool)
    answers = await asyncio.gather(*(_ask(talks[n % USERS], n % 3) for n in range(60)))
    for number, answer in enumerate(answers):
        assert answer
        assert answer <= own[number % USERS]
    await _all_back(pool)


async def _all_back(pool: Any) -> None:
    """There is a moment when no connection is lent out: a poll, or what is done after a response, comes to its end."""
    for _ in range(3000):
        if not pool.checkedout():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{pool.checkedout()} connections did not come back")
