"""Whatever comes in: a verdict, never an exception, in time linear in the text (P29)."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.gate import judge_explicit
from memory.gate.judging import MAX_SENTENCES
from memory.policy import GatePolicy
from memory.verdict import Reason
from tests.memory.gate.talk import contents, judged

_MARKS = "，。,;?！…0９😀\u200d\u0301(){}:-\"'“”\n "
_WORDS = (
    "I like |I'm |my name is |not |never |我|喜欢|不是|是|住在|以后|记住|remember |from now on |```|<memory>|and |but |the user |"
    "用户|过敏|对|ＡＢ|what |if |如果|tea|茶|/s|到|了|的"
)
FRAGMENTS = st.sampled_from([*_MARKS, *_WORDS.split("|")])


@settings(max_examples=400, deadline=None)
@given(st.lists(FRAGMENTS, max_size=30).map("".join) | st.text(max_size=120))
def test_never_raises_and_always_answers(text):
    found = judged(text, recalled=["The user likes tea."], previous_assistant=text[:50])
    assert bool(found) == bool(text.strip())
    assert judged(text) == judged(text)
    for judgement in found:
        if judgement.candidate:
            assert judgement.candidate.content.strip()
    assert judge_explicit(text)


@pytest.mark.parametrize(
    "unit",
    [
        "I like tea and ",
        "我喜欢，",
        "a",
        "我",
        "not ",
        "，",
        "\n",
        '"',
        "I ",
        "very ",
        "一",
        "{",
        "1-",
        ".",
        "I like tea. ",
        "，不是",
        "at ",
        "！",
    ],
)
def test_linear_time_on_100_000_characters(unit):
    text = (unit * 100_000)[:100_000]
    start = time.perf_counter()
    judged(text)
    judge_explicit(text)
    judged(text[:3900], policy=GatePolicy(max_entry_chars=4000))  # the longest sentence that a policy lets through
    assert time.perf_counter() - start < 5


def test_a_document_is_reported_as_over_the_limit():
    found = judged("I like tea. " * 500)
    assert found[-1].reason is Reason.OVER_LIMIT
    assert len(found) <= MAX_SENTENCES + 1
    assert judged("好。" * 20_000)[-1].reason is Reason.OVER_LIMIT


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("I’m vegan 🌱", "The user is vegan."),
        ("  i like   tea!!!  ", "The user likes tea."),
        ("我住在北京！！！😀", "用户住在北京"),
        ("我今年２８岁", "用户今年28岁"),
        ("im vegetarian", "The user is vegetarian."),
        ("i dont like olives", "The user does not like olives."),
        ("btw, I'm a nurse, thanks", "The user is a nurse."),
        ("对了，我对芒果过敏哦~", "用户对芒果过敏"),
    ],
)
def test_sloppy_writing(text, content):
    assert contents(text) == [content]


def test_nothing_said_nothing_judged():
    assert judged("") == judged(" \n\t ") == ()
