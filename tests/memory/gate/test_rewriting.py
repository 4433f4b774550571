"""From the first person into the third, and back."""

import pytest

from memory.gate import rewriting_en, rewriting_zh


@pytest.mark.parametrize(
    ("first", "third"),
    [
        ("I like my job", "the user likes their job"),
        ("I do not think I can", "the user does not think they can"),
        ("I am sure I was here", "the user is sure they were here"),
        ("I live and work in Paris", "the user lives and works in Paris"),
        ("my wife and I", "the user's wife and they"),
        ("give me your word", "give the user the assistant's word"),
        ("I carry, fix and watch", "the user carries, fix and watch"),
        ("I really often fly", "the user really often flies"),
        ("I no longer go", "the user no longer goes"),
        ("I read Book I", "the user reads Book I"),
        ("I moved to the US", "the user moved to the US"),
        ("I wash", "the user washes"),
    ],
)
def test_english_third_person(first, third):
    assert rewriting_en.third_person(first) == third


@pytest.mark.parametrize("verb", ["like", "am", "have", "do", "go", "carry", "watch", "fix", "play"])
def test_base_form_undoes_third_singular(verb):
    assert rewriting_en.base_form(rewriting_en.third_singular(verb)) == verb


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("I'm", "I am"),
        ("dont", "do not"),
        ("can't", "cannot"),
        ("won't", "will not"),
        ("my name's Bo", "my name is Bo"),
        ("I've", "I have"),
        ("we're", "we are"),
    ],
)
def test_contractions(short, full):
    assert rewriting_en.canonical(short) == full


def test_only_a_statement_about_the_user_has_a_first_person():
    assert rewriting_en.first_person("The weather is nice") is None
    assert rewriting_en.first_person("The user no longer likes their job") == "I no longer like my job"


@pytest.mark.parametrize(
    ("first", "third"),
    [
        ("我喜欢我自己的房间", "用户喜欢用户的房间"),
        ("我们公司用飞书", "用户的公司用飞书"),
        ("我女儿叫小雨", "用户的女儿叫小雨"),
        ("请你别叫我", "请助手别叫用户"),
        ("我们都爱喝茶", "用户这边都爱喝茶"),
        ("我在写自我介绍", "用户在写自我介绍"),
    ],
)
def test_chinese_third_person(first, third):
    assert rewriting_zh.third_person(first) == third
