"""Sentences for load: ours, made from small parts, Chinese and English in turn, never twice the same."""

from itertools import product

_PEOPLE = ("my sister", "our neighbour", "the new colleague", "my old teacher", "the landlord", "a friend from school")
_PLACES = ("the lake", "the night market", "the station", "the library", "the harbour", "the old bridge", "the airport")
_TIMES = ("on Friday", "next month", "this weekend", "after lunch", "in the evening", "tomorrow morning")
_人 = ("我妹妹", "邻居", "新来的同事", "以前的老师", "房东", "老同学")
_地 = ("湖边", "夜市", "车站", "图书馆", "码头", "老桥", "机场")
_时 = ("周五", "下个月", "这个周末", "午饭后", "晚上", "明天早上")
_WANTS = (
    "Where can I park near {1} {2} when I meet {0}?",
    "What should I bring for {0} at {1} {2}?",
    "Is {1} open {2}?",
)
_想 = ("{2}和{0}去{1}，要带什么？", "{2}{1}还开门吗？", "{2}去{1}怎么走最快？")
_LIKES = ("The user met {0} at {1} {2}.", "The user plans to go to {1} with {0} {2}.")
_喜 = ("用户{2}在{1}见过{0}。", "用户打算{2}和{0}一起去{1}。")


def _mixed(english: tuple[str, ...], chinese: tuple[str, ...], count: int) -> list[str]:
    parts_en = [shape.format(a, b, c) for shape, b, c, a in product(english, _PLACES, _TIMES, _PEOPLE)]
    parts_zh = [shape.format(a, b, c) for shape, b, c, a in product(chinese, _地, _时, _人)]
    texts = [text for pair in zip(parts_en, parts_zh, strict=False) for text in pair]
    return [texts[i] if i < len(texts) else f"{texts[i % len(texts)]} ({i})" for i in range(count)]


def questions(count: int) -> list[str]:
    return _mixed(_WANTS, _想, count)


def memories(count: int) -> list[str]:
    return _mixed(_LIKES, _喜, count)
