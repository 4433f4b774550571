"""Text: normal form, language, sentences, characters, fingerprints. Chinese, English, Japanese, Korean and others."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.text import fingerprint, graphemes, language, normalise, sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  I  like\t\ttea \r\n and\u00a0coffee ", "I like tea and coffee"),
        ("Ｉ ｌｉｖｅ ａｔ ２２１Ｂ", "I live at 221B"),  # full-width letters and digits
        (
            "我喜欢咖啡，不喜欢茶！（真的）",
            "我喜欢咖啡，不喜欢茶！（真的）",
        ),  # full-width punctuation is how Chinese is written
        ("等等……好", "等等……好"),
        ("ｶﾌｪで働く", "カフェで働く"),
        ("ﬁne cafe\u0301", "fine café"),
        ("nul\x00 bell\x07 bom\ufeff zero\u200bwidth", "nul bell bom zerowidth"),
        ("over\u202eride", "override"),
        ("\U000e0049\U000e0047hidden tags", "hidden tags"),  # letters that only a tokenizer sees
        ("lone \ud800 surrogate", "lone surrogate"),
        ("family 👨\u200d👩\u200d👧", "family 👨\u200d👩\u200d👧"),  # joiners stay
        ("Case IS Kept", "Case IS Kept"),
        ("", ""),
        (" \n\t ", ""),
    ],
)
def test_normalise(text, expected):
    assert normalise(text) == expected


@given(st.text())
def test_normalise_is_idempotent_and_leaves_no_controls(text):
    once = normalise(text)
    assert normalise(once) == once
    assert not any(ord(c) < 32 or 0xD800 <= ord(c) < 0xE000 for c in once)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("我喜欢喝咖啡", "zh"),
        ("北京", "zh"),
        ("我用 PyTorch 和 Kubernetes 部署 FastAPI", "zh"),
        ("帮我 review 这个 pull request", "zh"),
        ("Docker Compose 教程", "zh"),
        ("I love 北京烤鸭", "en"),
        ("The restaurant is called 海底捞, it's great", "en"),
        ("Grand Hyatt Hotel booking confirmed 张伟", "en"),
        ("東京都に住んでいます", "ja"),
        ("コーヒーが好き", "ja"),
        ("优之良品的店很好吃", "zh"),
        ("美の味的餐厅在上海浦东新区", "zh"),  # one kana in a brand name does not make Japanese
        ("저는 서울에 살아요", "ko"),
        ("I live in Berlin", "en"),
        ("Ich wohne nicht in der Stadt", "de"),
        ("J'ai un chat et je suis content", "fr"),
        ("No me gusta el café con leche", "es"),
        ("Я живу в Москве", "ru"),
        ("أنا أعيش في القاهرة", "ar"),
        ("อยู่กรุงเทพ", "th"),
        ("Paris", "en"),  # one word tells nothing: English by default
        ("12345 👍", "en"),
        ("", "en"),
    ],
)
def test_language(text, expected):
    assert language(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I like tea. I hate coffee!  Do you?", ["I like tea.", "I hate coffee!", "Do you?"]),
        ("i like it. it is good", ["i like it.", "it is good"]),
        ("我喜欢茶。你呢？太好了！", ["我喜欢茶。", "你呢？", "太好了！"]),
        ("预算3.5万；时间两周", ["预算3.5万；", "时间两周"]),
        ("预算少;时间短", ["预算少;", "时间短"]),
        ("tea; coffee", ["tea; coffee"]),  # a semicolon joins clauses in English
        ("他说：“我走了。”然后走了。", ["他说：“我走了。”", "然后走了。"]),
        ('He said "No." Then he left.', ['He said "No."', "Then he left."]),
        ("It costs 3.5 dollars. Version 2.0.1 is out.", ["It costs 3.5 dollars.", "Version 2.0.1 is out."]),
        ("价格是3.5。好", ["价格是3.5。", "好"]),
        ("Mail a.b@x.org. See https://x.org/a?b=1. Done", ["Mail a.b@x.org.", "See https://x.org/a?b=1.", "Done"]),
        ("打开https://example.org/a?b=1。然后登录", ["打开https://example.org/a?b=1。", "然后登录"]),
        ("See www.example.org! Now", ["See www.example.org!", "Now"]),
        (
            "Dr. Smith met Mrs. J. Doe, e.g. at 5 p.m. yesterday.",
            ["Dr. Smith met Mrs. J. Doe, e.g. at 5 p.m. yesterday."],
        ),
        ("I live in the U.S. He lives in the U.K. too.", ["I live in the U.S.", "He lives in the U.K. too."]),
        ("I work at Acme Inc. My boss is kind.", ["I work at Acme Inc.", "My boss is kind."]),
        ("See No. 5 there. I said no. Five is enough.", ["See No. 5 there.", "I said no.", "Five is enough."]),
        ("We meet at 5 p.m.", ["We meet at 5 p.m."]),
        ("1. Buy milk\n2. Sell it", ["1. Buy milk", "2. Sell it"]),
        ("I was born in 1990. We moved.", ["I was born in 1990.", "We moved."]),
        ("well... maybe. Wait... Then go.", ["well... maybe.", "Wait...", "Then go."]),
        ("嗯……我想想。", ["嗯……我想想。"]),
        ("Hmm… Let me see…", ["Hmm…", "Let me see…"]),
        ("Really?! Yes!!!", ["Really?!", "Yes!!!"]),
        ("真的?好吧!走", ["真的?", "好吧!", "走"]),
        ("open file.txt?x=1 now", ["open file.txt?x=1 now"]),
        ("first line\nsecond line\r\n\r\nthird", ["first line", "second line", "third"]),
        ("東京に住んでいます。猫が好きです！", ["東京に住んでいます。", "猫が好きです！"]),
        ("서울에 살아요. 고양이를 좋아해요!", ["서울에 살아요.", "고양이를 좋아해요!"]),
        ("no end", ["no end"]),
        (".", ["."]),
        (";", [";"]),
        ("", []),
        (" \n ", []),
    ],
)
def test_sentences(text, expected):
    assert sentences(text) == expected


@given(st.text(alphabet=st.sampled_from('aA1.。!?！；;\n "”…我.@/:'), max_size=60))
def test_sentences_lose_nothing_but_white_space(text):
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("I like tea.", "i LIKE  tea!!", True),
        ("我喜欢 喝茶。", "我喜欢喝茶", True),
        ("I don't smoke", "I dont smoke", True),
        ("It costs 2,000", "it costs 2000.", True),
        ("ＡＢＣ", "abc", True),
        ("My budget is 3.5", "My budget is 35", False),
        ("It was -5", "It was 5", False),
        ("I use C#", "I use C", False),
        ("I use C++", "I use C", False),
        ("20% off", "20 off", False),
        ("a part", "apart", False),
        ("👍", "👎", False),
        ("我喜欢茶", "我不喜欢茶", False),
    ],
)
def test_fingerprint(one, other, same):
    assert (fingerprint(one) == fingerprint(other)) is same
    assert len(fingerprint(one)) == 32


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cafe\u0301", ["c", "a", "f", "e\u0301"]),
        ("👨\u200d👩\u200d👧!", ["👨\u200d👩\u200d👧", "!"]),
        ("🇩🇪🇫🇷", ["🇩🇪", "🇫🇷"]),
        ("한국", ["한", "국"]),
        ("我们", ["我", "们"]),
        ("", []),
    ],
)
def test_p32_graphemes_are_whole(text, expected):
    assert graphemes(text) == expected


@pytest.mark.parametrize("unit", ["a", "a.", ". ", '."', "我", "1,", "a@", "http://", "\u0301", "\n", "1. ", ".\u3000"])
@pytest.mark.parametrize("function", [normalise, fingerprint, language, sentences])
def test_time_is_linear(function, unit):
    """Ten times the text takes about ten times as long; a quadratic scan would take a hundred times."""

    def fastest(length: int) -> float:
        text = unit * (length // len(unit))
        times = []
        for _ in range(3):
            start = time.perf_counter()
            function(text)
            times.append(time.perf_counter() - start)
        return min(times)

    assert fastest(50_000) < 45 * max(fastest(5_000), 1e-3)
