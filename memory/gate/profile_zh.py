# ruff: noqa: E501 - a pattern is read as one line
"""Chinese rules: who the user is and what is theirs."""

import re
from collections.abc import Callable

from memory.entry import Kind
from memory.gate import subjects
from memory.gate.found import Attribute, Found
from memory.gate.lexicon_zh import (
    ADVERBS,
    CONDITIONS,
    LANGUAGES,
    OCCUPATIONS,
    OWN_NOUNS,
    PETS,
    PLACES,
    RELATIVES,
    SURNAMES,
    I,
)
from memory.gate.rewriting_zh import sentence, third_person
from memory.verdict import Reason

Build = Callable[[re.Match[str]], "tuple[Found, ...] | Reason | None"]

_NUMBER = r"(?:\d{1,3}|[一二两三四五六七八九十百]{1,5})"
_CONTRAST = re.compile(r"^(?P<value>[^，,]+?)[，,]?(?:而)?不是(?P<old>[^，,]+)$")


def said(
    match: re.Match[str],
    kind: Kind,
    attribute: Attribute | None = None,
    *,
    corrects: bool = False,
    names: tuple[str, ...] = (),
) -> tuple[Found, ...]:
    reason = Reason.CORRECTION if corrects else Reason.SELF_DESCRIPTION
    return (Found(sentence(match.string), kind, reason, attribute or Attribute(), corrects=corrects, entities=names),)


def _clean(value: str) -> str:
    return re.sub(r"(?:了|的|啊|呀|哦)+$", "", value.strip("，,。；;！!： :")) or value


def _contrast(value: str) -> tuple[str, str | None]:
    found = _CONTRAST.match(value)
    return (_clean(found["value"]), _clean(found["old"])) if found else (_clean(value), None)


def _one(subject: str, kind: Kind = Kind.PROFILE, *, named: bool = False, corrects: bool = False) -> Build:
    """A rule for an attribute with one value; "是A，不是B" takes B back."""

    def build(match: re.Match[str]) -> tuple[Found, ...] | Reason:
        value, old = _contrast(match["x"])
        if re.match(r"(?:这|那|它|哪|酒店|朋友家|同学家)", value):
            return Reason.INCOMPLETE
        changed = (
            corrects or old is not None or bool(re.search(r"(?:搬|换|改|现在在)", match.string[: match.start("x")]))
        )
        return said(
            match, kind, subjects.single(subject, value, old), corrects=changed, names=(value,) if named else ()
        )

    return build


def _plain(kind: Kind) -> Build:
    def build(match: re.Match[str]) -> tuple[Found, ...]:
        return said(match, kind)

    return build


def _name(match: re.Match[str]) -> tuple[Found, ...] | Reason:
    value, old = _contrast(match["x"])
    if re.match(r"(?:这|那|它|什么|啥|你|他|她|了|外卖|车|个|一|不)", value) or len(value) > 24:
        return Reason.UNRECOGNISED
    attribute = subjects.single("name", value, old)
    content = f"用户的名字是{value}" + (f"，不是{old}" if old else "")
    return (
        Found(
            content,
            Kind.PROFILE,
            Reason.CORRECTION if old else Reason.SELF_DESCRIPTION,
            attribute,
            corrects=old is not None,
            entities=(value,),
        ),
    )


def _not_but(match: re.Match[str]) -> tuple[Found, ...] | None:
    """ "我的X不是A，是B": X is B, and A is taken back."""
    noun, old, new = match["noun"], _clean(match["old"]), _clean(match["x"])
    if noun in ("名字", "姓名"):
        subject, kind = "name", Kind.PROFILE
    else:
        subject, kind = _subject(noun), _kind(noun)
    return (
        Found(
            f"用户的{noun}是{new}，不是{old}",
            kind,
            Reason.CORRECTION,
            subjects.single(subject, new, old),
            corrects=True,
            entities=(new,),
        ),
    )


def _verb_not_but(match: re.Match[str]) -> tuple[Found, ...]:
    """ "我不是护士，我是医生", "我不叫A，叫B", "不是住在A，是住在B"."""
    verb, old, new = match["verb"], _clean(match["old"]), _clean(match["x"])
    subject = {"叫": "name", "住在": "home", "住": "home"}.get(
        verb, "job" if re.search(OCCUPATIONS, new) else "identity"
    )
    content = f"用户的名字是{new}，不是{old}" if subject == "name" else f"用户{verb}{new}，不是{old}"
    return (
        Found(
            third_person(content), Kind.PROFILE, Reason.CORRECTION, subjects.single(subject, new, old), corrects=True
        ),
    )


_SUBJECTS = {
    "邮箱": "email", "邮件地址": "email", "手机号": "phone", "手机号码": "phone", "电话": "phone", "电话号码": "phone", "号码": "phone", "收货地址": "shipping_address", "家庭地址": "address",
    "地址": "address", "住址": "address", "生日": "birthday", "出生日期": "birthday", "年龄": "age", "身高": "height", "体重": "weight", "血型": "blood_type", "星座": "star_sign", "国籍": "nationality",
    "民族": "ethnicity", "老家": "origin", "家乡": "origin", "籍贯": "origin", "职业": "job", "工作": "job", "职位": "job", "岗位": "job", "专业": "major", "母语": "native_language", "爱好": "hobby", "兴趣爱好": "hobby",
    "会员等级": "membership", "等级": "membership", "会员": "membership", "鞋码": "shoe_size", "预算": "budget", "时区": "time_zone", "微信": "wechat", "微信号": "wechat", "公司": "employer", "单位": "employer", "手机": "phone_model",
    "车牌": "license_plate", "车牌号": "license_plate", "学校": "school", "大学": "school", "宗教信仰": "religion", "信仰": "religion",
}  # fmt: skip
_PERSONAL = frozenset(
    [
        "birthday",
        "age",
        "height",
        "weight",
        "blood_type",
        "star_sign",
        "nationality",
        "ethnicity",
        "origin",
        "job",
        "major",
        "native_language",
        "hobby",
        "employer",
        "school",
        "religion",
    ]
)


def _subject(noun: str) -> str:
    bare = re.sub(r"^(?:工作|私人|个人|常用|备用|现在|目前|当前|新|默认|电子)(?:的)?(?=.)", "", noun)
    return _SUBJECTS.get(noun) or _SUBJECTS.get(bare) or bare


def _kind(noun: str) -> Kind:
    subject = _subject(noun)
    return Kind.CONSTRAINT if subject == "budget" else Kind.PROFILE if subject in _PERSONAL else Kind.FACT


def _own(match: re.Match[str]) -> tuple[Found, ...] | Reason | None:
    noun = match["noun"]
    value, old = _contrast(match["x"])
    if re.match(r"(?:这|那|它|不|坏|没|太|很|好|真|丢|在(?:这|那|哪))", value):
        return None
    kind = _kind(noun)
    changed = old is not None or bool(re.search(r"[换改]", match["link"] or ""))
    content = third_person(match.string)
    content = content if content.startswith("用户") else "用户的" + content
    reason = Reason.CORRECTION if changed else Reason.CONSTRAINT if kind is Kind.CONSTRAINT else Reason.SELF_DESCRIPTION
    return (Found(content, kind, reason, subjects.single(_subject(noun), value, old), corrects=changed),)


def _update(match: re.Match[str]) -> tuple[Found, ...]:
    noun, value = match["noun"], _clean(match["x"])
    return (
        Found(
            f"用户的{noun}是{third_person(value)}",
            _kind(noun),
            Reason.CORRECTION,
            subjects.single(_subject(noun), value),
            corrects=True,
        ),
    )


def _allergies(match: re.Match[str]) -> tuple[Found, ...] | Reason:
    things = [thing for thing in re.split(r"[、和跟与及/]|以及", match["x"]) if thing]
    if not things or any(re.match(r"(?:这|那|它|你|什么)", thing) for thing in things):
        return Reason.INCOMPLETE
    if len(things) == 1:
        return said(match, Kind.PROFILE, subjects.allergy(things[0]))
    return tuple(
        Found(f"用户对{thing}过敏", Kind.PROFILE, Reason.SELF_DESCRIPTION, subjects.allergy(thing)) for thing in things
    )


def _not_any_more(match: re.Match[str]) -> tuple[Found, ...]:
    """An allergy that is over, or never was."""
    subject = subjects.allergy(match["x"] or match["y"]).subject
    return said(match, Kind.PROFILE, Attribute(subject, "no", exclusive=True), corrects=True)


def _relative(attribute: str) -> Build:
    def build(match: re.Match[str]) -> tuple[Found, ...] | Reason:
        value, old = _contrast(match["x"])
        if re.match(r"(?:我|你|他|她|什么|这|那|不)", value):
            return Reason.THIRD_PARTY
        return said(
            match,
            Kind.PROFILE,
            subjects.single(f"family:{match['who']}:{attribute}", value, old),
            corrects=old is not None,
        )

    return build


def _call_me(match: re.Match[str]) -> tuple[Found, ...]:
    name = match["x"].strip("，。 ")
    return (
        Found(
            f"用户希望被称呼为{name}",
            Kind.PREFERENCE,
            Reason.PREFERENCE,
            subjects.single("form_of_address", name),
            entities=(name,),
        ),
    )


def _introduces(match: re.Match[str]) -> tuple[Found, ...]:
    name = match["x"]
    return (
        Found(
            f"用户的名字是{name}",
            Kind.PROFILE,
            Reason.SELF_DESCRIPTION,
            subjects.single("name", name),
            entities=(name,),
        ),
    )


def _no_longer(match: re.Match[str]) -> tuple[Found, ...]:
    subject = "home" if "住" in match["verb"] else "employer"
    attribute = Attribute(subject, None, exclusive=True, retracts=subjects.normal_value(match["x"]))
    return (Found(sentence(match.string), Kind.PROFILE, Reason.CORRECTION, attribute, corrects=True),)


_S = rf"(?:{I})?{ADVERBS}"
_END = r"(?:了|的|啊|呀|哦)*$"
FAMILY_RULES: tuple[tuple[re.Pattern[str], Build], ...] = tuple(
    (re.compile(pattern), build)
    for pattern, build in (
        (r"^(?:请)?(?:以后|你|大家都?|朋友们?都?|同事们?都?|别人都?)?(?:可以|直接|一般)?(?:叫|喊|称呼|管)我(?:为|做|作|叫)?(?P<x>(?!的|去|来|起床|吃|回|一声)[^，。,\s]{1,12}?)(?:吧|就好|就行|就可以|即可)*$", _call_me),
        (rf"^(?:{I})(?P<who>老婆|太太|媳妇|妻子|爱人)(?P<x>(?:已经)?怀孕.*)", _relative("expecting")),
        (rf"^(?:{I})(?:的|家(?:的|里的)?)?(?P<who>{RELATIVES}|{PETS})(?:的)?(?:名字)?(?:叫做?|名叫|的?名字是|名字叫|的?小名叫?是?)(?P<x>(?!我|你|他|她)[^，]{{1,14}}(?:[，,]?不(?:是|叫)[^，]+)?)$", _relative("name")),
        (rf"^(?:{I})(?:的|家(?:的|里的)?)?(?P<who>{RELATIVES})(?:的)?(?:生日是|出生于|是)(?P<x>[^，]*\d*[^，]*(?:月|年)[^，]*)$", _relative("birthday")),
        (rf"^(?:{I})(?:的|家(?:的|里的)?)?(?P<who>{RELATIVES}|{PETS})(?:今年|已经|刚|快|都|刚满|现在){{0,3}}(?P<x>{_NUMBER}(?:周?岁|个月)(?:半|大)?)(?:了)?$", _relative("age")),
        (rf"^(?:{I})(?:的|家(?:的|里的)?)?(?P<who>女儿|儿子|孩子|闺女|娃|宝宝)(?:今年|已经|刚|现在)*(?:上|读|念|在上|在读)(?P<x>(?:了)?(?:小学|初中|高中|大学|幼儿园|[一二三四五六]年级|初[一二三]|高[一二三]|大[一二三四]).*)", _relative("school")),
    )
)  # fmt: skip
"""What may be said of somebody else, because it says who the user's family is."""
PROFILE_RULES: tuple[tuple[re.Pattern[str], Build], ...] = tuple(
    (re.compile(pattern), build)
    for pattern, build in (
        (rf"^(?:{I}(?:的)?)?(?P<noun>名字|姓名|{OWN_NOUNS})(?:应该)?不(?:是|叫)(?P<old>[^，,]+)[，,](?:而|应该)?(?:是|叫)(?P<x>[^，,]+)", _not_but),
        (rf"^(?:{I}|)(?:应该)?不(?:是)?(?P<verb>叫|住在|住|是)(?P<old>[^，,]+)[，,](?:我|而|应该)*(?:是)?(?P=verb)(?P<x>[^，,]+)", _verb_not_but),
        (rf"^(?:{I}|)不是(?P<old>[^，,我]+)[，,](?:我|而|应该)*(?P<verb>是)(?P<x>[^，,]+)", _verb_not_but),
        (rf"^(?:{I})(?:的)?(?:名字|姓名|大名|真名|全名|本名)(?:就)?(?:叫做?|是|：|:)(?P<x>.+)", _name),
        (rf"^(?:{I}){ADVERBS}(?:叫做?|名叫|姓名是)(?P<x>(?!你|他|她|车|外卖|好|醒|人|我)[^，]{{1,24}}(?:[，,]?(?:而)?不(?:是|叫)[^，]+)?)", _name),
        (r"^(?:叫做?|名叫)(?P<x>(?!你|他|她|车|外卖|好|醒|人|我)[^，\s]{2,4})$", _name),
        (rf"^(?:{I})?(?:免贵)?姓(?P<x>[\u4e00-\u9fff]{{1,2}}){_END}", _one("surname")),
        (rf"^(?:{I})(?:就)?是(?P<x>[{SURNAMES}][\u4e00-\u9fff]{{1,2}})$", lambda m: None if re.search(rf"(?:{OCCUPATIONS}|人|族|血|会员|生)$", m["x"]) or re.match(PLACES, m["x"]) else _introduces(m)),
        (rf"^{_S}(?:居住在|定居在?|现居|常住在?|家住在?|住在|搬到了?|搬去了?|搬家到了?|搬回了?|搬来了?|迁到了?|家在|定居于|租住在|住)(?P<x>(?!院|校|宿|的|过|了|不|得|址)[^，]+(?:[，,]不是[^，]+)?)", _one("home", named=True)),
        (rf"^(?:{I})?(?:已经|刚|刚刚|前年|去年|今年|上个?月|上周|最近|下个?月)+(?:从[^，]+)?(?:搬到了?|搬去了?|搬家到了?|搬回了?|搬来了?|迁到了?)(?P<x>[^，]+)", _one("home", named=True, corrects=True)),
        (rf"^(?:{I})?{ADVERBS}(?:来自|出生在|出生于|生在|长在)(?P<x>(?!\d)[^，]+)", _one("origin", named=True)),
        (rf"^(?:{I})?(?:是|老家是?在?|家乡是?在?|籍贯是?)(?P<x>{PLACES}[\u4e00-\u9fff]{{0,6}}?)(?:的|人|那边的?|那边)*$", _one("origin", named=True)),
        (rf"^(?:{I})?(?:其实|现在|已经)*(?:不(?:再)?对(?P<x>[^，我你]{{1,12}})|对(?P<y>[^，我你不]{{1,12}})(?:已经|现在)?不(?:再)?)过敏(?:了|的)?$", _not_any_more),
        (rf"^{_S}(?:对)(?P<x>(?!.*不(?:再)?过敏)[^，我你]{{1,24}}?)(?:严重|轻微|有点|有些|会|都|很|中度|重度|有)?过敏", _allergies),
        (rf"^{_S}(?P<x>(?!对|有|会)[\u4e00-\u9fff]{{1,6}})过敏{_END}", _allergies),
        (rf"^{_S}(?:是|信奉|坚持|奉行|吃)?(?:一个|一名|个)?(?P<x>(?:严格)?素食(?:主义)?者|素食|吃素的?|纯素|蛋奶素|纯素食者|清真|吃斋|全素){_END}", _one("diet")),
        (rf"^{_S}(?P<x>吃素|吃斋|茹素|生酮饮食|吃清真|低碳饮食|低盐饮食){_END}", _one("diet")),
        (rf"^{_S}(?P<x>乳糖不耐受?|麸质不耐受?|麸质过敏){_END}", _plain(Kind.PROFILE)),
        (rf"^{_S}(?:有|患有|得了|得过|患了|确诊了?|查出了?)(?:点|一点|轻微的?|严重的?|多年的?)?(?P<x>{CONDITIONS}).*", lambda m: said(m, Kind.PROFILE, subjects.standing("health", m["x"]))),
        (rf"^{_S}(?:是)?(?P<x>色盲|色弱|近视|左撇子|右撇子|孕妇|怀孕\S{{0,6}}|聋人|盲人|糖尿病(?:人|患者)|高血压患者){_END}", _plain(Kind.PROFILE)),
        (rf"^{_S}(?:是)?(?P<x>(?:A|B|O|AB|a|b|o|ab)型血?|RH阴性血?)(?:的)?$", _one("blood_type")),
        (rf"^{_S}(?:已经|刚|早就)?(?P<x>已婚|未婚|单身|离婚|离异|结婚|订婚|丧偶)(?:了|[\d一二两三四五六七八九十]+年)*{_END}", _one("marital_status")),
        (rf"^(?:{I})?{ADVERBS}(?:今年|都|快|刚|已经|满|刚满)*(?P<x>{_NUMBER})(?:周?岁)(?:了|啦|半)*$", _one("age")),
        (rf"^(?:{I})?(?:是)?(?:出生于|生于)?(?P<x>(?:\d{{4}}|\d{{2}}|[零〇一二三四五六七八九]{{2,4}})年(?:\d{{1,2}}月(?:\d{{1,2}}[日号])?)?)(?:出生|生|的)(?:的|人)?$", _one("birthday")),
        (rf"^(?:{I})?是?(?P<x>\d0后|[零五六七八九]零后|[5-9]\d后){_END}", _plain(Kind.PROFILE)),
        (rf"^(?:{I})?(?:是|属于)?(?P<x>[白金双巨狮处天射摩水][羊牛子蟹女秤蝎手羯瓶鱼]座?座)(?:的)?$", _one("star_sign")),
        (rf"^(?:{I})属(?P<x>[鼠牛虎兔龙蛇马羊猴鸡狗猪])(?:的)?$", _one("zodiac")),
        (rf"^{_S}(?:是|信)(?P<x>(?:汉|回|满|藏|蒙古|维吾尔|壮|苗|彝|土家|朝鲜|白|傣|侗|瑶)族|穆斯林|佛|道|基督|基督徒|佛教徒|天主教徒|佛教|基督教|道教|无神论者)(?:人|的)?$", _one("ethnicity_or_religion")),
        (rf"^{_S}(?:会说|会讲|能说|懂|在学|正在学|会|说|学过|精通|自学过?)(?:一点|一些|流利的?|点)?(?P<x>{LANGUAGES}.*)", lambda m: said(m, Kind.PROFILE, Attribute("languages", subjects.normal_value(m["x"])))),
        (rf"^{_S}(?:会|在学|学过|弹|拉)(?P<x>(?:弹|拉|吹|打)?(?:钢琴|吉他|小提琴|古筝|二胡|尤克里里|架子鼓|笛子).*)", _plain(Kind.PROFILE)),
        (rf"^{_S}是(?:你们|你们的|你家的|贵店的?|店里的?|本店)?(?:一名|一个|个)?(?P<x>[\u4e00-\u9fffA-Za-z\d]{{0,8}}(?:会员|VIP\d*|vip\d*|Vip\d*|PLUS|plus|老客户|黑卡|金卡|用户))(?:用户)?{_END}", _one("membership", Kind.FACT)),
        (rf"^(?:{I})(?:不再|已经不|不)(?P<verb>在|住在|住)(?P<x>[^，]+?)(?:工作|上班|住|干|做|待)?了?$", _no_longer),
        (rf"^(?:{I})?(?:已经)?(?:辞职|离职|退休|跳槽|失业|被裁|转行|毕业|升职)(?:了|到|去)(?P<x>.*)", lambda m: said(m, Kind.PROFILE, corrects=True)),
        (rf"^(?:{I})?(?:已经|刚|最近)?(?:换了?|找到了?|入职|加入|跳槽到?|调到|转到)(?:了)?(?:新|一份)?(?P<x>(?:工作|公司|单位|[^，一个手机电]{{2,10}}(?:公司|部门|集团|大学)).*)", _one("employer", corrects=True)),
        (rf"^(?:{I})?(?:现在|目前|如今){ADVERBS}(?:是|做|当)(?:一名|一个|个|了)?(?P<x>{OCCUPATIONS}){_END}", _one("job", corrects=True)),
        (rf"^{_S}(?:的)?(?:职业|工作|本职)?(?:是|做|当|担任|干)(?:一名|一个|一家|一位|个|名|位|的是|了)?(?P<x>[^，我你他她不这那]{{0,14}}?{OCCUPATIONS})(?:的)?{_END}", _one("job")),
        (rf"^(?:{I}){ADVERBS}(?:在)(?P<x>[^，]{{1,20}}?)(?:工作|上班|任职|就职|打工|供职|干活|教书|当差)(?!时|日|太|的时候).*", _one("employer", named=True)),
        (rf"^(?:在)(?P<x>[^，]{{1,20}}?)(?:工作|上班|任职|就职|打工){_END}", _one("employer", named=True)),
        (rf"^{_S}(?:现在|目前)在(?P<x>(?!外|路上|地铁|车上|公司$|单位$|楼下|里面|看|写|做|吃|等|用|学校$|医院$|机场|火车站|床上)[^，这那家]{{2,12}})$", lambda m: said(m, Kind.PROFILE, corrects=True)),
        (rf"^(?:{I})?{ADVERBS}在(?P<x>[^，]{{1,16}}?)(?:做|当|担任|教|读|念|学|上)(?P<y>[^，了]{{1,16}}){_END}", _plain(Kind.PROFILE)),
        (rf"^{_S}(?:从事|主攻|负责|经营|开了?(?:一)?家|创办了?|(?:自己)?开(?:的)?(?=[^，]{{1,8}}店))(?P<x>[^，这那]{{2,20}})", _plain(Kind.PROFILE)),
        (rf"^{_S}是(?:做|搞|干|学|教|开|卖|写)(?P<x>[^，这那]{{1,14}})的$", _one("job")),
        (rf"^{_S}(?:在)?(?:读|念|上|就读于)(?P<x>(?:大[一二三四]|研[一二三]|高[一二三]|初[一二三]|博士?|硕士?|研究生|大学|高中|初中|[^，书]{{2,12}}(?:大学|学院|专业|中学)).*)", _one("school")),
        (rf"^(?:{I}){ADVERBS}(?:大学|本科|研究生|硕士|博士|以前|在[^，]{{1,10}})*(?:学的是|学的|专业是|念的是|读的是|主修)(?P<x>[^，这那]{{2,14}})", _one("major")),
        (rf"^(?:{I})?(?:的)?(?:小学|初中|高中|大学|本科|研究生|硕士|博士)(?:是)?在(?P<x>[^，这那]{{2,12}}?)(?:读|上|念)(?:的)?$", _plain(Kind.PROFILE)),
        (rf"^(?:{I})?{ADVERBS}(?:小时候)?(?:是)?(?:在|从小在)(?P<x>[^，这那]{{2,10}})(?:长大|出生|土生土长)(?:的)?$", _one("origin", named=True)),
        (rf"^(?:{I})(?:跟|和|与)?(?:我)?(?:的)?(?:{RELATIVES})?(?P<x>(?:已经)?结婚(?:快|有|都|已经)*[\d一二两三四五六七八九十几]+(?:多)?年)(?:了)?$", _one("marital_status")),
        (rf"^(?:{I})?{ADVERBS}(?P<x>一个人住|独居|自己住|(?:跟|和|与)(?:父母|爸妈|室友|朋友|同事|家人|老人|公婆)(?:一起)?(?:住|合租))$", _one("household")),
        (rf"^(?:{I})?(?:今年)?(?P<x>(?:二|三|四|五|六|七)十(?:出头|多岁|来岁)|快(?:二|三|四|五|六|七|八)十(?:岁)?了?|奔(?:三|四|五|六))(?:了)?$", _one("age")),
        (rf"^(?:{I})(?:也|以前|曾经|之前|年轻时)*(?:当过|做过)(?P<x>兵|老师|护士|医生|销售|[^，这那你一]{{1,8}}(?:师|员|工作|生意))(?:的)?(?:[，一二两三四五六七八九十\d]+年)?$", _plain(Kind.PROFILE)),
        (rf"^(?:{I})?(?:刚|上个月|去年|今年)*(?P<x>(?:生完|生了|有了)(?:一个|个)?(?:二胎|三胎|老二|宝宝|女儿|儿子|孩子))", _plain(Kind.PROFILE)),
        (rf"^(?:{I})?(?:今年|现在|目前|已经|刚)*(?:是|读|上|念)?(?P<x>大[一二三四]|研[一二三]|高[一二三]|初[一二三]|博[一二三])(?:了|的)?(?:学生)?$", _one("school")),
        (rf"^(?:{I})(?:今年|已经|都|快|刚)*(?P<x>\d{{2}}|[二三四五六七八九]?十[一二三四五六七八九]?)了$", _one("age")),
        (rf"^(?:{I})?{ADVERBS}(?P<x>戴(?:着)?(?:眼镜|隐形眼镜|助听器|牙套|假牙|心脏起搏器))(?:的)?$", _plain(Kind.PROFILE)),
        (r"^我(?:们)?(?:的)?(?:公司|团队|部门|学校|小组|单位|组)(?:里|都|一直|内部|现在|目前|主要)*(?P<x>用(?:的是)?[^，这那它你]{2,20})$", lambda m: said(m, Kind.FACT)),
        (rf"^(?:{I})(?:最)?常用的(?P<noun>[^，这那]{{1,8}}?)是(?P<x>[^，]+)", lambda m: said(m, Kind.FACT, subjects.single(m["noun"], m["x"]))),
        (rf"^(?:{I}|家里|我家)?{ADVERBS}有(?:一)?(?:台|部|辆|架)(?P<x>[^，这那]{{2,14}})$", _plain(Kind.FACT)),
        (rf"^(?:{I}|家里|公司)?(?:家|里)?(?P<x>(?:用的是|装的是|办的是)[^，这那它]{{1,12}}(?:宽带|网络|套餐|系统|空调|热水器).*)", _plain(Kind.FACT)),
        (rf"^(?:{I})?{ADVERBS}(?P<x>(?:晕车|晕船|晕机|恐高|怕冷|胃不好|腰不好|膝盖不好|睡眠不好|肠胃不好|眼睛不好)(?:得)?(?:很|严重|厉害)?)(?:的)?$", _plain(Kind.PROFILE)),
        (rf"^(?:{I})?(?:毕业于|是[^，]{{2,12}}毕业的?|从[^，]{{2,12}}毕业)(?P<x>.*)", _plain(Kind.PROFILE)),
        (rf"^(?:{I}|家里|我家)?{ADVERBS}(?:里)?(?:有|生了)(?P<x>(?:一|两|俩|三|四|五|六|\d|几|双|对|没)?(?:个|位|对|名)?(?:[\u4e00-\u9fff]{{0,4}}?){RELATIVES})(?![说的])(?:了)?(?P<y>$|[一两三四五六，].*|叫.+)", _plain(Kind.PROFILE)),
        (rf"^(?:{I}|家里|我家)?{ADVERBS}(?:里)?(?:养了?|有|领养了?|收养了?)(?P<x>(?:一|两|俩|三|四|五|六|\d|几|好几)?(?:只|条|个|匹)?(?:[\u4e00-\u9fff]{{0,6}}?){PETS})(?:$|叫.+|名叫.+|[，,].*)", _plain(Kind.PROFILE)),
        (rf"^(?:请)?(?:帮我)?(?:把|将)(?:我的?)?(?P<noun>名字|姓名|{OWN_NOUNS})(?:从[^，]+)?(?:改成|改为|换成|更新为|更新成|换为|改到|变更为)(?P<x>[^，]+)", _update),
        (rf"^(?:{I}|)(?:的)?(?P<noun>{OWN_NOUNS})(?P<link>(?:现在|已经|都|就|一直|应该|刚){{0,3}}(?:是|为|：|:|改成了?|换成了?|改为了?|换到了?|用的是|在|升到了?|变成了?|有|大概|最多(?:是)?|最高(?:是)?))\s*(?P<x>.+)", _own),
        (rf"^{_S}(?P<verb>用的?是|开的是|骑的是|用|开|骑|玩的是)(?P<x>(?:的)?(?:一台|一部|一辆|一个|辆|台|部|款|个)?[^，这那它我你]{{0,10}}(?:手机|电脑|笔记本|相机|平板|汽车|轿车|SUV|suv|车|系统|浏览器|编辑器|输入法|耳机|显卡|Mac|mac|MacBook|iPhone|iPad|Windows|Linux|Android|安卓|鸿蒙|苹果|华为|小米|比亚迪|特斯拉|奔驰|宝马|奥迪|丰田|本田|大众|ThinkPad|联想|Vim|VS ?Code|Python|Java|Rust|飞书|钉钉|企业微信)(?:[ \w\u4e00-\u9fff]{{0,8}}))$", _plain(Kind.FACT)),
        (rf"^(?:{I}){ADVERBS}(?P<x>(?:每天|每晚|每早|每周|每个?星期|每月|每个月|每年|隔天|工作日|每逢周末|周[一二三四五六日天末](?:都|雷打不动|固定|总会|必)|睡前(?:都|总)|饭后(?:都|总)|每个?周末)(?:[一二三四五六日天])?(?!.*(?:不能|必须|不要|别|不得|超过))[^，这那]{{2,30}})", _plain(Kind.FACT)),
        (rf"^(?:{I})?(?:身高|体重)(?P<x>\s*[\d一].+)", _plain(Kind.PROFILE)),
        (rf"^(?:{I})穿(?P<x>[^，]{{0,6}}(?:\d+|[XSML]+)(?:码|号|的鞋)?.*)$", _plain(Kind.FACT)),
    )
)  # fmt: skip
