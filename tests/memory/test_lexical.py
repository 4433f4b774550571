"""Keywords: BM25 over small sets, a question's subject and how much of it an entry has (P13)."""

import math

import pytest

from memory.lexical import Bm25, coverage, document, is_personal, question_content
from memory.terms import terms

ENTRIES = ["用户住在北京", "用户这次旅行的预算是五千元", "The user lives in Berlin.", "The user loves dark chocolate."]


@pytest.mark.parametrize(
    ("question", "best"),
    [
        ("北京", 0),  # P13: words of two characters
        ("预算还有多少", 1),
        ("who is living in berlin", 2),
        ("chocolates", 3),
    ],
)
def test_p13_bm25_finds_two_character_words_and_stems(question, best):
    scores = Bm25([document(terms(entry)) for entry in ENTRIES]).scores(terms(question))
    assert scores.argmax() == best
    assert scores[best] > 0


def test_bm25_is_the_textbook_formula():
    index = Bm25([document(["a", "b"]), document(["b", "c", "c"])])
    idf = math.log1p((2 - 1 + 0.5) / (1 + 0.5))
    assert index.idf("a") == pytest.approx(idf)
    assert index.scores(["a"]) == pytest.approx([idf * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 2 / 2.5)), 0.0])
    assert index.scores(["a", "a"])[0] == pytest.approx(2 * index.scores(["a"])[0])


def test_terms_of_the_turn_before_count_less():
    index = Bm25([document(["tea"]), document(["milk"], ["tea"]), document(["milk", "cup"])])
    own, before, neither = index.scores(["tea"])
    assert own > before > neither == 0


@pytest.mark.parametrize("documents", [[], [document([])]])
def test_bm25_of_nothing(documents):
    assert Bm25(documents).scores(["tea"]).tolist() == [0.0] * len(documents)


@pytest.mark.parametrize(
    ("question", "entry", "low", "high"),
    [
        ("北京", "用户住在北京", 1.0, 1.0),
        ("预算", "用户这次旅行的预算是五千元", 1.0, 1.0),
        ("Berlin", "The user lives in Berlin.", 1.0, 1.0),
        ("我的猫叫什么名字？", "用户养了一只叫年糕的橘猫", 0.1, 0.5),  # one character alone proves less
        ("花费多少", "用户对花生过敏", 0.0, 0.3),  # 花 of 花生 is another word
        ("Which city do I live in?", "The user lives in Berlin.", 0.5, 0.5),
        ("你好", "你好", 0.0, 0.0),  # no subject, nothing to cover
        ("What can you do for me?", "The user can do it.", 0.0, 0.0),
        ("你喜欢北京吗", "用户喜欢茶", 0.0, 0.25),  # what is said of everything weighs little
        ("Do you like chess?", "The user likes tea.", 0.0, 0.0),
    ],
)
def test_p13_coverage(question, entry, low, high):
    assert low <= coverage(question_content(question), frozenset(terms(entry))) <= high


@pytest.mark.parametrize(
    ("question", "personal"),
    [
        ("我住在哪里？", True),
        ("我的猫叫什么名字", True),
        ("帮我解释一下区块链", False),  # 帮我: a favour, not a subject
        ("推荐一家餐厅", True),
        ("今晚吃什么好", True),
        ("珠穆朗玛峰有多高", False),
        ("Where do I live?", True),
        ("Explain recursion to me", False),
        ("Tell me a joke", False),
        ("Is this okay for me?", True),
        ("What should one cook tonight?", True),
        ("Who wrote Hamlet?", False),
    ],
)
def test_is_personal(question, personal):
    assert is_personal(terms(question)) is personal
