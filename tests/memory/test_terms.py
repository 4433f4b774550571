"""What a text is found by, in Chinese, English, Japanese, Korean and others."""

import pytest

from memory.terms import content_terms, terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I liked running", ["i", "like", "run"]),
        ("Apples, APPLE’S apples", ["appl", "appl", "appl"]),
        ("don't stop", ["don't", "stop"]),
        ("北京", ["北", "京", "北京"]),
        ("我住在北京。", ["我", "住", "我住", "在", "住在", "北", "在北", "京", "北京"]),
        ("我用Python写", ["我", "用", "我用", "python", "写"]),
        ("カフェで", ["カ", "フ", "カフ", "ェ", "フェ", "で", "ェで"]),
        ("서울에", ["서", "울", "서울", "에", "울에"]),
        ("２０２６年", ["2026", "年"]),
        ("2,000.50 or 3.5", ["2000.50", "or", "3.5"]),
        ("1,000,000", ["1000000"]),
        ("12,34", ["12", "34"]),
        ("order ORD-2026-0001", ["order", "ord-2026-0001", "ord", "2026", "0001"]),
        ("GPT-4o v2.0", ["gpt-4o", "gpt", "4o", "v2.0", "v2", "0"]),
        ("at 9:30 on 2026-11-30", ["at", "9:30", "9", "30", "on", "2026-11-30", "2026", "11", "30"]),
        ("state-of-the-art", ["state", "of", "the", "art"]),
        ("the U.S. and the US", ["the", "us", "and", "the", "us"]),
        ("C++ and C# not C", ["c++", "and", "c#", "not", "c"]),
        ("café cafe", ["cafe", "cafe"]),
        ("Я живу в Москве", ["я", "жив", "в", "москв"]),
        ("Ελλάδα", ["ελλαδ"]),
        ("👍 … !", []),
        ("", []),
    ],
)
def test_terms(text, expected):
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("entry", "question", "shared"),
    [
        ("我打算明年搬到北京", "北京", "北京"),
        ("项目的预算是三万", "预算多少", "预算"),
        ("She runs every morning", "running", "run"),
        ("Ich suche zwei Wohnungen in der Stadt und bin nicht reich", "Wohnungen", "wohnungen"),
        ("Nous avons des voitures et je suis content", "voitures", "voitur"),
        ("東京に住んでいます", "東京", "東京"),
        ("서울에 살아요", "서울", "서울"),
        ("ｉＰｈｏｎｅ を買った", "iphone", "iphon"),
        ("订单号 ORD-2026-0001 已发货", "ord-2026-0001", "ord-2026-0001"),
        ("My résumé is ready", "resume", "resum"),
        ("ประชุมที่กรุงเทพ", "กรุงเทพ", "กร"),
    ],
)
def test_p13_a_question_meets_its_entry_in_every_language(entry, question, shared):
    assert shared in set(terms(entry)) & set(terms(question))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The budget of my project is 3.5", ["budget", "project", "3.5"]),
        ("I don't like tea", ["don't", "like", "tea"]),  # a denial is content
        ("我们的预算", ["预", "的预", "算", "预算"]),
        ("我不喜欢茶", ["不", "我不", "喜", "不喜", "欢", "喜欢", "茶", "欢茶"]),
        ("私は猫が好き", ["私", "私は", "猫", "は猫", "猫が", "好", "が好", "好き"]),
        ("und die Stadt ist nicht mein", ["stadt", "nicht"]),
        ("what is it", []),
    ],
)
def test_content_terms_leave_function_words_out(text, expected):
    assert content_terms(text) == expected


def test_a_word_without_end_is_cut_and_a_term_never_is_longer_than_64():
    assert terms("a" * 100_000) == ["a" * 64]
    assert all(0 < len(term) <= 64 for term in terms("x-1-" * 50 + "9" * 500 + ("1," + "000," * 40 + "000")))


def test_two_threads_stem_alike():
    """A stemmer keeps state between calls: shared between threads it would mix words up."""
    from concurrent.futures import ThreadPoolExecutor

    from memory.terms import _stem

    words = [
        f"{stem}{ending}"
        for stem in ("walk", "talk", "nation", "relat", "happi")
        for ending in ("ing", "ed", "ness", "ally", "ations")
    ]
    _stem.cache_clear()
    alone = [terms(word) for word in words]
    _stem.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        for answers in pool.map(lambda _: [terms(word) for word in words], range(8)):
            assert answers == alone
