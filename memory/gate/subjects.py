# ruff: noqa: E501 - a pattern is read as one line
"""One normal form for attributes and values, whatever the wording or language: "tea", "drinking tea" and "喝茶" are one object."""

import re

from memory.gate.found import Attribute
from memory.text import normalise

_ENGLISH_OF: dict[str, str] = {}


def _pairs(table: str) -> None:
    for line in table.split():
        english, *chinese = line.replace("_", " ").split("=")
        for word in chinese[0].split("/"):
            _ENGLISH_OF[word] = english


# food and drink, allergens, tastes
_pairs("""
tea=茶/喝茶 coffee=咖啡 milk=牛奶/奶 alcohol=酒/酒精/酒精饮料 beer=啤酒 wine=红酒/葡萄酒 milk_tea=奶茶 soy_milk=豆浆 water=水 juice=果汁 cola=可乐
spicy_food=辣/辣的/辣椒/辣味/辣菜/辛辣/吃辣的 sweet_food=甜食/甜的/甜品/甜点 seafood=海鲜 fish=鱼/鱼肉 beef=牛肉 pork=猪肉 lamb=羊肉 chicken=鸡肉
meat=肉/肉类 cilantro=香菜 garlic=大蒜/蒜 onion=洋葱 ginger=姜/生姜 durian=榴莲 peanut=花生 nut=坚果 shellfish=贝类/甲壳类 shrimp=虾/虾子 crab=螃蟹
egg=鸡蛋/蛋 soy=大豆/黄豆 wheat=小麦 gluten=麸质 mango=芒果 pollen=花粉 dust_mite=尘螨 penicillin=青霉素 cephalosporin=头孢 aspirin=阿司匹林
smoking=烟/抽烟/吸烟 latex=乳胶 dairy=乳制品/奶制品 lactose=乳糖 chinese_food=中餐/中国菜 japanese_food=日料/日本菜 western_food=西餐 hotpot=火锅 sushi=寿司 noodles=面条/面
rice=米饭 fruit=水果 apple=苹果 banana=香蕉 vegetables=蔬菜 chocolate=巧克力 offal=内脏
""")
# leisure and travel
_pairs("""
cats=猫/猫咪 dogs=狗/狗狗 hiking=爬山/徒步/登山 running=跑步 swimming=游泳 basketball=篮球/打篮球 football=足球/踢足球 badminton=羽毛球/打羽毛球
tennis=网球/打网球 yoga=瑜伽 reading=看书/读书/阅读 painting=画画 cooking=做饭/烹饪 gardening=园艺 jazz=爵士/爵士乐 classical_music=古典乐/古典音乐
horror_movies=恐怖片/恐怖电影 science_fiction=科幻/科幻小说 trains=高铁/火车/坐高铁/坐火车 planes=飞机/坐飞机 window_seats=靠窗的座位/靠窗座位
aisle_seats=靠过道的座位 dark_mode=深色主题/深色模式/暗色模式 phone_calls=电话 emojis=表情/表情符号
""")
# places, languages, diets, tiers, ranks of favourites
_pairs("""
beijing=北京/北京市 shanghai=上海/上海市 guangzhou=广州/广州市 shenzhen=深圳/深圳市 hangzhou=杭州/杭州市 chengdu=成都/成都市 nanjing=南京/南京市
wuhan=武汉/武汉市 suzhou=苏州/苏州市 tianjin=天津/天津市 chongqing=重庆/重庆市 xi'an=西安/西安市 paris=巴黎 london=伦敦 tokyo=东京 new_york=纽约
berlin=柏林 singapore=新加坡 hong_kong=香港 taipei=台北 china=中国 france=法国 japan=日本 germany=德国 the_united_states=美国
chinese=中文/汉语/普通话/国语/华语 english=英文/英语 japanese=日文/日语 french=法文/法语 german=德文/德语 spanish=西班牙语/西语 korean=韩语/韩文
russian=俄语/俄文 cantonese=粤语/广东话 arabic=阿拉伯语 italian=意大利语 portuguese=葡萄牙语 traditional_chinese=繁体字/繁体/繁体中文 simplified_chinese=简体/简体中文
vegetarian=素食者/素食主义者/素食/吃素/吃素的 vegan=纯素/纯素食者/严格素食者 halal=清真 gold=黄金/金卡/黄金会员 platinum=白金/铂金/白金会员/铂金会员
diamond=钻石/钻石会员 silver=白银/银卡 premium=高级会员 food=食物/菜 drink=饮料 movie=电影/影片 film=片子 song=歌/歌曲 singer=歌手 band=乐队 book=书
player=球员 team=球队 colour=颜色 city=城市 sport=运动 season=季节 fruit=水果 game=游戏 actor=演员 dish=菜
""")
_SPELLINGS = {
    "color": "colour",
    "film": "movie",
    "veggie": "vegetarian",
    "a vegetarian": "vegetarian",
    "a vegan": "vegan",
    "smoke": "smoking",
    "drink": "alcohol",
}

_EN_LEAD = re.compile(
    r"^(?:(?:the|a|an|any|some|my|your|our|their|eating|drinking|to|eat|drink|have|having|watching|watch|listening|listen|playing|play|"
    r"reading|taking|take|using|use|very|too|really|so)\s+)+",
    re.IGNORECASE,
)
_EN_TAIL = re.compile(
    r"\s+(?:very much|so much|a lot|at all|anymore|any more|any longer|these days|lately|now|too|as well|the most|most|best|though|"
    r"myself|by the way|again|nowadays|please|instead)$",
    re.IGNORECASE,
)
_ZH_LEAD = re.compile(
    r"^(?:(?:吃|喝|看|听|玩|用|坐|点|买|养|打|穿|太|很|特别|比较|更|那种|这种|一些|任何|任何的|所有)(?=.))+"
)
_ZH_TAIL = re.compile(r"(?<=.)(?:了|的|啊|呀|呢|吧|哦|啦|哈|嘛|的味道|的东西|这种东西|之类的|什么的|类的)$")
_EDGES = " \t.,;:!?'\"，。；：！？、“”‘’「」『』（）()~～…"


def normal_value(text: str) -> str:
    """The normal form of a value or object: lower-case, without articles, verbs of use and trailing adverbs; English where the table knows it."""
    value = normalise(text).strip(_EDGES).casefold()
    if value in _ENGLISH_OF:
        return _ENGLISH_OF[value]
    for strip in (_EN_LEAD, _EN_TAIL, _EN_TAIL, _ZH_TAIL, _ZH_LEAD, _ZH_TAIL):
        value = strip.sub("", value).strip(_EDGES) or value
        if value in _ENGLISH_OF:
            return _ENGLISH_OF[value]
    return _SPELLINGS.get(value, value)


def singular(noun: str) -> str:
    """ "peanuts" -> "peanut": allergens and the like are named by the thing, not by how many."""
    if len(noun) > 4 and noun.endswith("ies"):
        return noun[:-3] + "y"
    if len(noun) > 3 and noun.endswith("s") and not noun.endswith(("ss", "us", "is")):
        return noun[:-1]
    return noun


_SUBJECT_CHARS, _VALUE_CHARS = 80, 200


def _named(attribute: Attribute) -> Attribute:
    """A whole subordinate clause is no name of a thing: such an entry sets no attribute."""
    long = len(attribute.subject or "") > _SUBJECT_CHARS or len(attribute.value or "") > _VALUE_CHARS
    return Attribute() if long else attribute


def single(subject: str, value: str, retracts: str | None = None) -> Attribute:
    """An attribute with one value at a time: a new one retires the old (home, name, job)."""
    old = normal_value(retracts) if retracts else None
    return _named(Attribute(subject, normal_value(value), exclusive=True, retracts=old))


def taste(thing: str, likes: bool) -> Attribute:
    """P8: liking and disliking one thing are two values of one attribute, so that the later one retires the earlier."""
    return _named(Attribute(f"preference:{normal_value(thing)}", "like" if likes else "dislike", exclusive=True))


def favourite(category: str, thing: str) -> Attribute:
    """P7: there is one favourite of a kind at a time."""
    return _named(Attribute(f"favourite:{singular(normal_value(category))}", normal_value(thing), exclusive=True))


def standing(subject: str, value: str) -> Attribute:
    """An attribute whose values stand side by side (languages, children, pets): `subject:value`."""
    normal = normal_value(value)
    return _named(Attribute(f"{subject}:{normal}", normal))


def allergy(allergen: str) -> Attribute:
    thing = singular(normal_value(allergen))
    return _named(Attribute(f"allergy:{thing}", "yes", exclusive=True))
