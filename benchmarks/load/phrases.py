"""What is said under load: ours, Chinese and English in turn. One message in five says something worth keeping, as in ordinary talk."""

from itertools import product

from benchmarks.phrases import memories, questions

KEPT_EVERY = 5
"""Every so many messages say something that the gate keeps."""

_FOODS = ("peanuts", "shellfish", "strawberries", "soy milk", "sesame", "mangoes", "oysters", "hazelnuts", "celery")
_HOBBIES = ("rock climbing", "watercolours", "table tennis", "birdwatching", "chess", "pottery", "sailing", "baking")
_CITIES = ("Lyon", "Porto", "Graz", "Turku", "Ghent", "Cork", "Bergen", "Malmö", "Padua", "Leiden")
_食 = ("花生", "海鲜", "草莓", "豆浆", "芝麻", "芒果", "生蚝", "榛子", "芹菜")
_好 = ("攀岩", "水彩画", "乒乓球", "观鸟", "国际象棋", "陶艺", "帆船", "烘焙")
_城 = ("成都", "厦门", "苏州", "昆明", "青岛", "长沙", "大连", "桂林", "杭州", "西安")
_SAID = (
    *(f"I'm allergic to {food}." for food in _FOODS),
    *(f"I like {hobby}." for hobby in _HOBBIES),
    *(f"I live in {city}." for city in _CITIES),
)
_说 = (
    *(f"我对{食}过敏。" for 食 in _食),
    *(f"我喜欢{好}。" for 好 in _好),
    *(f"我住在{城}。" for 城 in _城),
)
_SMALL = (
    "{1}, {0}.",
    "Could you say that again, more slowly? {0}.",
    "{0}; tell me more about that, please.",
    "That helps, thanks. {0}?",
)
_闲 = ("{1}，{0}。", "能再说一遍吗？{0}。", "{0}，麻烦再讲讲。", "明白了，谢谢。{0}？")
_ASIDES = ("okay", "right", "I see", "sure", "hm", "well", "fine", "good")
_TOPICS = ("the second point", "that idea", "the other option", "what came first", "the last part", "your example")
_语 = ("好的", "行", "嗯", "这样啊", "可以", "知道了", "没问题", "哦")
_题 = ("第二点", "那个想法", "另一个选择", "最先说的那个", "最后那部分", "你举的例子")
_CHATTER = tuple(
    text
    for english, chinese in zip(
        (shape.format(topic, aside) for shape, topic, aside in product(_SMALL, _TOPICS, _ASIDES)),
        (shape.format(topic, aside) for shape, topic, aside in product(_闲, _题, _语)),
        strict=True,
    )
    for text in (english, chinese)
)
_STATEMENTS = tuple(text for pair in zip(_SAID, _说, strict=True) for text in pair)


def message(number: int) -> str:
    """The user's `number`-th message. Different speakers begin elsewhere, so that not all say the same at once."""
    if number % KEPT_EVERY == 0:
        return _STATEMENTS[number // KEPT_EVERY * 7 % len(_STATEMENTS)]
    return _CHATTER[number * 5 % len(_CHATTER)]


class Questions:
    """Questions that were not asked before, as far as they go: then a number tells them apart."""

    def __init__(self, count: int) -> None:
        self._texts = list(dict.fromkeys(questions(max(1, count))))

    def __getitem__(self, number: int) -> str:
        text = self._texts[number % len(self._texts)]
        return text if number < len(self._texts) else f"{text} ({number})"


def known(user: int, count: int) -> list[str]:
    """What a user's memory holds before the load: `count` entries, other ones for each user."""
    return memories((user + 1) * count)[user * count :]
