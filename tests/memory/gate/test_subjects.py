"""One normal form for attributes and values, whatever the wording or language (L6, P7, P8)."""

import pytest

from memory.gate import subjects
from tests.memory.gate.talk import entries

ATTRIBUTES = [
    # text, subject, value, exclusive
    ("I live in Beijing", "home", "beijing", True),
    ("我住在北京", "home", "beijing", True),
    ("我家在北京", "home", "beijing", True),
    ("My name is Anna", "name", "anna", True),
    ("我叫张三", "name", "张三", True),
    ("I work as a nurse", "job", "nurse", True),
    ("I work for Siemens", "employer", "siemens", True),
    ("I'm vegetarian", "diet", "vegetarian", True),
    ("我是素食者", "diet", "vegetarian", True),
    ("我吃素", "diet", "vegetarian", True),
    ("I'm allergic to peanuts", "allergy:peanut", "yes", True),
    ("I have a severe peanut allergy", "allergy:peanut", "yes", True),
    ("我对花生过敏", "allergy:peanut", "yes", True),
    ("I like drinking tea", "preference:tea", "like", True),
    ("我喜欢喝茶", "preference:tea", "like", True),
    ("I can't stand coffee", "preference:coffee", "dislike", True),
    ("我讨厌咖啡", "preference:coffee", "dislike", True),
    ("我不喜欢吃辣", "preference:spicy food", "dislike", True),
    ("I prefer tea to coffee", "preference:tea", "like", True),
    ("My favorite color is teal", "favourite:colour", "teal", True),
    ("我最喜欢的颜色是蓝色", "favourite:colour", "蓝色", True),
    ("My birthday is on 4 November", "birthday", "4 november", True),
    ("我的生日是3月12日", "birthday", "3月12日", True),
    ("My email is a@example.com", "email", "a@example.com", True),
    ("我的邮箱是a@example.com", "email", "a@example.com", True),
    ("From now on answer in French", "answer_language", "french", True),
    ("以后用法语回答我", "answer_language", "french", True),
    ("Keep your answers short from now on", "answer_style", "short", True),
    ("以后回答简短一点", "answer_style", "简短", True),
    ("My budget is 2000 euros", "budget", "2000 euros", True),
    ("我有糖尿病", "health:糖尿病", "糖尿病", False),
    ("I have a dog named Rex", None, None, False),
]


@pytest.mark.parametrize(("text", "subject", "value", "exclusive"), ATTRIBUTES)
def test_attributes(text, subject, value, exclusive):
    (entry,) = entries(text)
    assert (entry.subject, entry.value, entry.exclusive) == (subject, value, exclusive)


CORRECTIONS = [
    ("My name is Anna, not Hannah", "name", "anna", "hannah"),
    ("我叫章三，不是张三", "name", "章三", "张三"),
    ("我的名字不是张珊，是张姗", "name", "张姗", "张珊"),
    ("我的会员等级不是黄金，是铂金", "membership", "platinum", "gold"),
    ("不是护士，我是医生", "job", "医生", "护士"),
    ("Actually, I live in Ghent, not Bruges", "home", "ghent", "bruges"),
    ("更正一下，我住在浦东，不是浦西", "home", "浦东", "浦西"),
    ("I no longer live in Paris", "home", None, "paris"),
    ("我已经不在腾讯上班了", "employer", None, "腾讯"),
    ("I've switched from coffee to tea", "preference:tea", "like", "coffee"),
    ("I moved to Berlin", "home", "berlin", None),
    ("I'm no longer allergic to peanuts", "allergy:peanut", "no", None),
    ("I'm not allergic to peanuts", "allergy:peanut", "no", None),
    ("我对花生不过敏", "allergy:peanut", "no", None),
    ("我不再对花生过敏了", "allergy:peanut", "no", None),
    ("I'm no longer vegan", "diet", None, "vegan"),
    ("I'm no longer pregnant", "health:pregnant", None, "pregnant"),
]


@pytest.mark.parametrize(("text", "subject", "value", "retracts"), CORRECTIONS)
def test_corrections_name_what_they_take_back(text, subject, value, retracts):
    (entry,) = entries(text)
    assert entry.corrects
    assert (entry.subject, entry.value, entry.retracts) == (subject, value, retracts)


def test_p8_love_and_hate_are_two_values_of_one_attribute():
    (love,), (hate,) = entries("I love Chinese food"), entries("I hate Chinese food")
    assert love.subject == hate.subject == "preference:chinese food"
    assert (love.value, hate.value) == ("like", "dislike")
    assert love.exclusive and hate.exclusive


def test_p8_love_and_hate_in_chinese_too():
    (love,), (hate,) = entries("我喜欢吃火锅"), entries("我讨厌火锅")
    assert love.subject == hate.subject == "preference:hotpot"
    assert (love.value, hate.value) == ("like", "dislike")


def test_p7_a_new_favourite_is_the_same_attribute():
    (old,) = entries("My favourite player is Ronaldo")
    (new,) = entries("my current favourite is Messi", recalled=[old.content])
    assert (old.subject, new.subject) == ("favourite:player", "favourite:player")
    assert (old.value, new.value) == ("ronaldo", "messi")
    assert new.corrects


def test_p7_in_chinese_too():
    (new,) = entries("我现在最喜欢的是梅西", recalled=["用户最喜欢的球员是罗纳尔多"])
    assert (new.subject, new.value) == ("favourite:player", "梅西")


def test_p7_a_favourite_of_no_kind_stays_so_when_two_were_recalled():
    (new,) = entries(
        "my current favourite is Messi",
        recalled=["The user's favourite player is X.", "The user's favourite band is Y."],
    )
    assert new.subject == "favourite"


def test_a_clause_names_no_attribute():
    (entry,) = entries("I prefer " + "taking the slow road through the hills " * 4)
    assert entry.subject is None


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("the Tea ", "tea"),
        ("喝茶", "tea"),
        ("eating spicy food", "spicy food"),
        ("color", "colour"),
        ("吃辣", "spicy food"),
        ("的", "的"),
        ("", ""),
    ],
)
def test_normal_value(text, normal):
    assert subjects.normal_value(text) == normal


@pytest.mark.parametrize(
    ("plural", "one"),
    [("berries", "berry"), ("peanuts", "peanut"), ("grass", "grass"), ("citrus", "citrus")],
)
def test_singular(plural, one):
    assert subjects.singular(plural) == one
