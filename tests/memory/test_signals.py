"""Numbers and denials: what parts two sentences whose vectors are close."""

import pytest

from memory.signals import negated, numbers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("my budget is 2,000", ("2000",)),
        ("my budget is 2k", ("2000",)),
        ("预算两千元", ("2000",)),
        ("预算2千", ("2000",)),
        ("two thousand dollars", ("2000",)),
        ("预算1.5万", ("15000",)),
        ("一万五千元", ("15000",)),
        ("三千五", ("3500",)),
        ("三千零五", ("3005",)),
        ("一百二", ("120",)),
        ("两亿三千万", ("230000000",)),
        ("二〇二六年", ("2026",)),
        ("一百二十三", ("123",)),
        ("one hundred and ten", ("110",)),
        ("twenty-five years and three cats", ("25", "3")),
        ("a million", ("1000000",)),
        ("３.５０ kg", ("3.5",)),
        ("-5 degrees", ("-5",)),
        ("100", ("100",)),
        ("2026-11-30 at 9:30", ("2026-11-30", "9:30")),
        ("2026/11/30", ("2026-11-30",)),
        ("order ORD-0001", ("ord-0001",)),
        ("三个孩子，两只猫", ("3", "2")),
        ("十分钟", ("10",)),
        ("十分喜欢", ()),
        ("万一下雨就一起走，统一一下", ()),
        ("千万别忘了", ()),
        ("两三个人", ()),  # about that many: no number
        ("我是一名医生", ()),  # an article
        ("one cat", ()),
        ("MP3 and IPv6", ()),
        ("nothing", ()),
    ],
)
def test_numbers(text, expected):
    assert numbers(text) == expected


@pytest.mark.parametrize(
    ("text", "denies"),
    [
        ("我不吃猪肉", True),
        ("我没有孩子", True),
        ("别给我打电话", True),
        ("从未去过", True),
        ("无糖咖啡", True),
        ("我吃猪肉", False),
        ("味道不错", False),
        ("特别喜欢", False),
        ("我不仅喜欢茶", False),
        ("是不是", False),
        ("好不好吃", False),
        ("我不得不走", False),
        ("我在无锡", False),
        ("未来的计划", False),
        ("I don't eat pork", True),
        ("I don’t eat pork", True),
        ("I never smoke", True),
        ("no sugar", True),
        ("I cannot swim", True),
        ("I eat pork", False),
        ("not only tea", False),
        ("no problem", False),
        ("see no. 5", False),
        ("I know a knot", False),
    ],
)
def test_negated(text, denies):
    assert negated(text) is denies
