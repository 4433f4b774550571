"""A turn gets its context: said in one session, in the next session's prompt, within its budget; in both languages."""

import pytest

pytestmark = pytest.mark.model


async def test_a_preference_said_in_chinese_reaches_the_next_session(shop):
    first = await shop.open("lin")
    await first.say("你好！今天天气真不错。", "我叫林晓，住在杭州，对花生过敏。", "我喜欢喝咖啡。")
    await first.say("我现在不喝咖啡了，改喝茶了。")
    assert not [content for content in await first.contents() if "天气" in content]

    second = await shop.open("lin")
    answer = await second.context("下午想喝点什么，有什么推荐？")
    shown = [(memory["status"], memory["content"]) for memory in answer["memories"]]
    assert any(status == "active" and "茶" in content for status, content in shown)
    assert any(status == "outdated" and "咖啡" in content for status, content in shown)
    assert answer["tokens"]["total"] <= answer["tokens"]["budget"]
    assert not answer["degraded"]
    assert await second.recalled("法国大革命是哪一年开始的？") == []


async def test_a_preference_said_in_english_reaches_the_next_session(shop):
    first = await shop.open("ann")
    await first.say("Hi there!", "I'm allergic to shellfish and I live in Lyon.", "I like window seats on planes.")
    second = await shop.open("ann")
    assert any("shellfish" in content for content in await second.recalled("Which dish should I order tonight?"))
    assert any("window" in content for content in await second.recalled("Book me a seat on the flight, please."))
    assert await second.recalled("What is the square root of 144?") == []


async def test_what_was_just_said_is_found_before_and_after_it_is_indexed(strata, shop):
    talk = await shop.open("mei")
    await talk.say("我对芒果过敏。")
    question = "这道芒果甜品我能吃吗？"
    before = await talk.recalled(question)
    await strata.settle()
    assert before == await talk.recalled(question) != []
