"""Parts that are away: answers degrade and say so, and what was written meanwhile is made good (P37)."""

from collections.abc import Sequence

import pytest

from deployments.in_process import InProcessEmbedder
from memory.encoding import EncodedPassage, EncodedQuery, Passage
from memory.errors import Unavailable
from memory.scope import system_scope
from memory.ticket import Ticket
from tests.end_to_end.harness import strata as opened

pytestmark = pytest.mark.model


class Switch(InProcessEmbedder):
    """The real model behind a switch."""

    away = False

    async def queries(self, ticket: Ticket, texts: Sequence[str]) -> list[EncodedQuery]:
        if self.away:
            raise Unavailable("embedder")
        return await super().queries(ticket, texts)

    async def passages(self, ticket: Ticket, passages: Sequence[Passage]) -> list[EncodedPassage]:
        if self.away:
            raise Unavailable("embedder")
        return await super().passages(ticket, passages)


async def test_p37_what_was_written_while_the_embedder_was_down_is_found_then_and_gets_its_vector_later(home, encoder):
    embedder = Switch(encoder)
    async with opened(home, embedder) as strata:
        shop = await strata.tenant("shop")
        talk = await shop.open("wei")
        embedder.away = True
        said = await talk.say("我对芒果过敏。")
        assert said["verdicts"][0]["verdict"] == "stored"
        assert "embedder" in said["degraded"]
        await strata.curator.step()
        answer = await talk.context("芒果过敏")
        assert answer["degraded"] == ["embedder"]
        assert any("芒果" in memory["content"] for memory in answer["memories"])
        assert (await strata.services.records.backlog(system_scope())).entries == 1

        embedder.away = False
        for _ in range(40):
            await strata.settle()
            if not (await strata.services.records.backlog(system_scope())).entries:
                break
        assert (await strata.services.records.backlog(system_scope())).entries == 0
        healed = await talk.context("Am I allergic to mangoes?")
        assert healed["degraded"] == []
        assert any("芒果" in memory["content"] for memory in healed["memories"])
    await embedder.close()


async def test_without_an_index_sql_answers(strata, shop, monkeypatch):
    talk = await shop.open("wei")
    await talk.say("I'm allergic to kiwi.")
    await strata.settle()

    async def away(*_: object) -> None:
        raise Unavailable("index")

    monkeypatch.setattr(strata.services.index._backend, "search", away)
    answer = await talk.context("Is kiwi fine for me?")
    assert "index" in answer["degraded"]
    assert any("kiwi" in memory["content"] for memory in answer["memories"])


async def test_without_sql_the_session_goes_on(strata, shop, monkeypatch):
    talk = await shop.open("wei")

    async def away(*_: object) -> None:
        raise Unavailable("records")

    for name in ("recall_rows", "recent", "write"):
        monkeypatch.setattr(strata.services.records, name, away)
    said = await talk.say("I'm allergic to kiwi.")
    assert said["degraded"] == ["records"]
    assert said["verdicts"][0]["reason"] == "records_unavailable"  # said so, never silently lost (P4)
    answer = await talk.context()
    assert "records" in answer["degraded"]
    assert answer["messages"][-1]["content"] == "I'm allergic to kiwi."


async def test_p40_liveness_asks_no_store(strata, monkeypatch):
    async def away(*_: object) -> None:
        raise Unavailable("records")

    monkeypatch.setattr(strata.services.records, "ping", away)
    assert (await strata.call("GET", "/healthz", "")).status_code == 200
    ready = await strata.call("GET", "/readyz", "")
    assert ready.status_code == 503
    assert ready.json()["stores"]["records"] == "away"
