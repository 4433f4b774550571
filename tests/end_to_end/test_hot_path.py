"""What a context call may ask of others: the counts are held here, because each costs every call of every user."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event

from storage.index.blind import BlindIndex
from storage.sessions.client import SessionClient

_POLLED = re.compile(r"FROM (tenants|index_versions|placements)")
FACTS = ("I live in Lisbon.", "I am allergic to peanuts.", "我喜欢喝龙井茶。")


@contextmanager
def statements(strata: Any) -> Iterator[list[str]]:
    """The first word of every statement that the records are sent about users; what opens and ends a transaction aside, and what
    every replica asks now and then whether anybody calls or not."""
    database = strata.services.records._database
    engine = database._local._engine if database._local else database._server._engine.sync_engine
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        word = statement.split(None, 1)[0]
        polled = _POLLED.search(statement) is not None and "users" not in statement
        if word not in ("BEGIN", "COMMIT") and not polled:
            seen.append(word)

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(engine, "before_cursor_execute", note)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What else is asked, in order: round trips to the session store, searches of the index."""
    seen: list[str] = []
    for owner, name in ((SessionClient, "_send_to"), (BlindIndex, "search")):
        real = getattr(owner, name)

        def noted(*args: Any, _real: Any = real, _name: str = name) -> Any:
            seen.append(_name)
            return _real(*args)

        monkeypatch.setattr(owner, name, noted)
    return seen


async def test_one_round_trip_to_the_sessions_one_statement_to_the_records(
    strata: Any, shop: Any, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = await shop.open("ann")
    await talk.say(*FACTS)
    await strata.settle()
    await talk.context("Where do I live?")  # the user's key, the policy and the model's card are known from here on
    await strata.services.background.close()
    encoded: list[int] = []
    queries = type(strata.services.embedder).queries

    async def counted(self: Any, ticket: Any, texts: Any) -> Any:
        encoded.append(len(texts))
        return await queries(self, ticket, texts)

    monkeypatch.setattr(type(strata.services.embedder), "queries", counted)
    asked.clear()
    with statements(strata) as seen:
        answer = await talk.context("What can I eat for dinner?")
        during = list(seen)
    assert [memory["content"] for memory in answer["memories"]] and answer["degraded"] == []
    assert (during, sorted(asked), encoded) == (["SELECT"], ["_send_to", "search"], [1])

    with statements(
        strata
    ) as seen:  # without a query of its own the question is the session's: nothing is asked twice for that
        asked.clear()
        await talk.context()
        assert (seen, sorted(asked)) == (["SELECT"], ["_send_to", "search"])


async def test_what_an_entry_replaced_costs_one_statement_more(strata: Any, shop: Any, asked: list[str]) -> None:
    talk = await shop.open("ann")
    await talk.say("I live in Lisbon.")
    await talk.say("I moved to Porto. I live in Porto now.")
    await strata.settle()
    await talk.context("Where do I live?")
    await strata.services.background.close()
    with statements(strata) as seen:
        answer = await talk.context("Where do I live?")
        assert {memory["status"] for memory in answer["memories"]} == {"active", "outdated"}
        assert seen == ["SELECT", "SELECT"]


async def test_i2_reads_are_on_record_together_soon_and_when_it_stops(strata: Any, shop: Any) -> None:
    talk = await shop.open("ann")
    await talk.say(*FACTS)
    await strata.settle()
    for _ in range(5):
        await talk.context("Where do I live?")
    with statements(strata) as seen:
        await strata.services.background.close()
    assert seen.count("UPDATE") <= 2 and seen.count("INSERT") <= 1, seen
    (home,) = [memory for memory in await talk.memories() if "Lisbon" in memory["content"]]
    assert home["access_count"] == 5
