# ruff: noqa: E501 - a pattern is read as one line
"""Chinese rules: tastes, constraints, standing requests, outcomes, lessons."""

import re
from collections.abc import Callable
from dataclasses import replace

from memory.entry import Kind
from memory.gate import subjects
from memory.gate.found import Attribute, Found
from memory.gate.lexicon_zh import ADVERBS, DISLIKES, LANGUAGES, LIKES, I
from memory.gate.profile_zh import FAMILY_RULES, PROFILE_RULES
from memory.gate.refusals_zh import THIRD_PARTY
from memory.gate.rewriting_zh import sentence, third_person
from memory.verdict import Reason

Build = Callable[[re.Match[str]], "tuple[Found, ...] | Reason | None"]

_TO_ASSISTANT = re.compile(r"^(?:你|您)(?!(?:回答|回复|说话|解释|直接|讲|用|简|详|叫|称))")
_VAGUE = re.compile(
    r"^(?:这|那)种(?:感觉|方式|情况|说法|做法|东西|风格|样子)|^过(?!年|节|周末)|(?:这|那)(?:个|款|些|版|张|家|位|件|首|部)$|^(?:后面|前面|左边|右边|上一|下一)|^(?:它们?|这(?!种|样的|类)|那(?!种|样的|类)|他们?|她们?|上面|第[一二三四五]|前者|后者|刚才|其中)|^(?:[吃喝看听玩用])?(?:这个|那个|这些|那些|它|这样|那样|这种|那种)$"
)


def vague(thing: str) -> Reason | None:
    """Why `thing` names nothing outside this conversation, if so."""
    if _TO_ASSISTANT.match(thing):
        return Reason.SMALL_TALK
    return Reason.INCOMPLETE if not thing.strip("，。！!～~ 了的") or _VAGUE.match(thing) else None


def told(
    clause: str, kind: Kind, reason: Reason, attribute: Attribute | None = None, *, corrects: bool = False
) -> tuple[Found, ...]:
    return (Found(sentence(clause), kind, reason, attribute or Attribute(), corrects=corrects),)


def _changed(text: str) -> bool:
    return bool(re.search(r"不再|已经不|现在(?:不|更|改|也不|就)|改(?:喝|吃|用|看|坐)", text))


def _taste(likes: bool) -> Build:
    def build(match: re.Match[str]) -> tuple[Found, ...] | Reason:
        thing = match["x"]
        why = vague(thing)
        if why:
            return why
        corrects = _changed(match.string)
        reason = Reason.CORRECTION if corrects else Reason.PREFERENCE
        return told(match.string, Kind.PREFERENCE, reason, subjects.taste(thing, likes), corrects=corrects)

    return build


def _favourite(match: re.Match[str]) -> tuple[Found, ...] | Reason:
    if vague(match["x"]):
        return Reason.INCOMPLETE
    now = bool(re.search(r"现在|目前|如今|新|改成|变成", match.string))
    category = match["category"] or ""
    attribute = (
        subjects.favourite(category, match["x"])
        if category
        else Attribute("favourite", subjects.normal_value(match["x"]), exclusive=True)
    )
    return told(match.string, Kind.PREFERENCE, Reason.CORRECTION if now else Reason.PREFERENCE, attribute, corrects=now)


def _switch(match: re.Match[str]) -> tuple[Found, ...] | Reason:
    if vague(match["x"]):
        return Reason.INCOMPLETE
    taste = subjects.taste(match["x"], True)
    old = match.groupdict().get("old")
    if old:  # 从咖啡改喝茶: what was left is no longer liked
        taste = replace(taste, retracts=subjects.normal_value(old))
    return told(match.string, Kind.PREFERENCE, Reason.CORRECTION, taste, corrects=True)


def _own_limit(match: re.Match[str]) -> tuple[Found, ...] | Reason:
    thing = match["x"]
    if vague(thing) and thing:
        return vague(thing) or Reason.INCOMPLETE
    if re.match(r"(?:起|完|下|到|着|饱|够|得|动|过瘾)", thing):
        return Reason.UNRECOGNISED
    stopped = bool(re.search(r"不再|已经不|现在不|戒", match.string))
    return told(
        match.string,
        Kind.CONSTRAINT,
        Reason.CORRECTION if stopped else Reason.CONSTRAINT,
        subjects.taste(thing, False) if thing else Attribute(),
        corrects=stopped,
    )


_ABOUT_THIS_TURN = re.compile(
    r"这(?!种|类)|那(?!种|类|么)|它|^(?:着急|急|担心|客气|生气|紧|介意|误会|在意|谢|怕|闹|开玩笑|逗|笑|哭|走|吵|动|停|说了|问了|多想|想太多|忘|难过|灰心|放弃|瞎说|骗|删|发(?!.*(?:广告|短信|邮件给|消息|推送|通知))|改|管我|理|提了|了$|见怪|见外|太|乱)|第[一二三四五\d]+(?:段|行|章|句|个)|上面|下面|刚才|先"
)


def asked(demand: str) -> str:
    """The demand as a statement: "别给我打电话" -> "用户要求别给用户打电话"."""
    return "用户要求" + third_person(demand).strip("，,。 了")


_LANGUAGE = re.compile(rf"用(?P<language>{LANGUAGES})(?:来|跟我|和我|给我)?(?:回答|回复|交流|写|说|沟通|答复|解释)?")
_STYLE = re.compile(r"简短|简洁|简明|精简|精炼|详细|长一点|短一点|直接|啰嗦|口语化|正式|表格|要点|列表|一句话")
_CALL = re.compile(r"(?:叫|喊|称呼|称)我(?:为|做|作)?(?P<name>[^，。,\s]{1,12}?)(?:吧|就好|就行|就可以|即可)*$")


def _about_answers(demand: str) -> Attribute:
    language = _LANGUAGE.search(demand)
    if language and re.search(r"回答|回复|交流|写|说|沟通|答复|解释", demand):
        return subjects.single("answer_language", language["language"])
    call = _CALL.search(demand)
    if call:
        return subjects.single("form_of_address", call["name"])
    style = _STYLE.search(demand)
    if style and re.search(r"回答|回复|答案|答复|说|解释|报告|内容", demand):
        return subjects.single("answer_style", style.group())
    return Attribute()


_OTHERS = re.compile(r"要求|说|让|规定|希望|客户|老板|领导|公司|学校|老师|医院|国家|政府|甲方|经理|房东|人(?:都|们)?$")


def _others(match: re.Match[str]) -> bool:
    """Somebody else's demand: "客户要求必须用 Java"."""
    return bool(_OTHERS.search(match.groupdict().get("head") or ""))


def _demand(match: re.Match[str]) -> tuple[Found, ...] | Reason:
    action = match["x"]
    if _others(match):
        return Reason.THIRD_PARTY
    if _ABOUT_THIS_TURN.search(action):
        return (
            Reason.SMALL_TALK if re.match(r"(?:担心|着急|客气|生气|急|紧|难过|介意|见外)", action) else Reason.REQUEST
        )
    if len(action.strip("了吧啊，。 ")) < 2:
        return Reason.INCOMPLETE
    return (Found(asked(match.string), Kind.CONSTRAINT, Reason.CONSTRAINT, _about_answers(match.string)),)


def _demand_always(match: re.Match[str]) -> tuple[Found, ...] | Reason:
    if _others(match):
        return Reason.THIRD_PARTY
    if len(match["x"].strip("的了啊呀吧 ")) < 2:
        return Reason.INCOMPLETE
    if re.search(
        r"这(?!种|类)|那(?!种|类|么)|它|加油|赢|努力|成功|会|好好|小心|注意|要去|去一趟|幸福|好起来|是", match["x"]
    ):
        return Reason.REQUEST
    return (Found(asked(match.string), Kind.CONSTRAINT, Reason.CONSTRAINT, _about_answers(match.string)),)


def _cannot(match: re.Match[str]) -> tuple[Found, ...] | Reason:
    thing = match["head"]
    if re.match(r"(?:今天|现在|最近|已经|这|那|手机|电脑|网|软件|登录)", thing):
        return Reason.UNRECOGNISED
    return told(
        match.string,
        Kind.CONSTRAINT,
        Reason.CONSTRAINT,
        subjects.taste(re.sub(r"(?:都|也|一点|完全)+$", "", thing), False),
    )


def _budget(match: re.Match[str]) -> tuple[Found, ...] | Reason:
    if not re.search(r"[\d一二两三四五六七八九十百千万]", match["x"]):
        return Reason.INCOMPLETE
    content = third_person(match.string)
    content = content if "用户" in content else "用户的" + content
    return (Found(content, Kind.CONSTRAINT, Reason.CONSTRAINT, subjects.single("budget", match["x"])),)


def _outcome(match: re.Match[str]) -> tuple[Found, ...]:
    return (Found(third_person(match.string).strip("，。 "), Kind.TASK_RESULT, Reason.OUTCOME),)


def _solved(match: re.Match[str]) -> tuple[Found, ...]:
    return (Found("用户反馈问题已解决：" + third_person(match["x"]).strip("，。 "), Kind.TASK_RESULT, Reason.OUTCOME),)


def _lesson(match: re.Match[str]) -> tuple[Found, ...]:
    return (Found("用户总结的教训：" + third_person(match["x"]).strip("，。 "), Kind.LESSON, Reason.OUTCOME),)


_WHEN = r"(?:(?:平时|平常|周末|早上|晚上|现在|最近|其实|在家|夏天|冬天|出差|旅行|工作日|一般|通常|如今|目前|比起[^，]{1,10}，|相比(?:于|之下)?[^，]{0,10}，|跟[^，]{1,10}比，|除了[^，]{1,10}，|[^，我]{1,8}的话)+[，,]?|[^，我你他她这那]{1,6}(?=我))?"
_DOING = r"(?:睡觉|吃饭|出门|出差|旅游|旅行|工作|上班|下班|看书|看电影|做饭|开车|运动|购物|买东西|写代码|喝咖啡|喝茶|休息|逛街|点餐|健身|洗澡|办公|学习|写东西|吃面|坐车|坐飞机|住酒店|在家|在外面)?(?:时|的时候)?"
_THING_DONE = r"(?:退款|部署|问题|故障|报错|错误|bug|Bug|BUG|发布|上线|迁移|升级|安装|订单|包裹|快递|转账|支付|付款|备份|更新|申请|测试|签证|预订|编译|构建|导入|导出|合同|审批|打印机|电脑|网络|wifi|WiFi|Wi-Fi|服务器|数据库|接口|登录|手机|项目|方案|漏洞|蓝屏|系统|路由器|空调|洗衣机|软件|脚本|程序|任务|报销|面试|考试|体检)"
_WHOLE: tuple[tuple[re.Pattern[str], Build], ...] = tuple(
    (re.compile(pattern), build)
    for pattern, build in (
        (r"^(?:这次的?|我的|血的|最大的|得到的|一个)?(?:教训|经验|心得|经验教训|总结)(?:就?是|：|:|，)+(?P<x>.{4,})", _lesson),
        (r"^(?:吃一堑长一智|长记性了|学到了|记住教训)[：:，,]+(?P<x>.{4,})", _lesson),
        (r"^(?:我)?(?:终于|总算|已经)?(?:搞定|解决|修好|弄好|成功|可以|通|好|恢复)了[，,。！! ]*(?P<x>(?:原来|果然)?(?:就?是|因为|是因为|换了|改了|重启了?|重装了?|把|用了?|多亏)(?!什么|啥|吗)[^你]{2,})$", _solved),
    )
)  # fmt: skip
_RULES: tuple[tuple[re.Pattern[str], Build], ...] = tuple(
    (re.compile(pattern), build)
    for pattern, build in (
        (rf"^(?P<x>(?:(?:我|我们)(?:的)?)?(?:[^，我你他她]{{0,14}}?)?{_THING_DONE}(?:的[^，]{{1,6}})?(?:终于|已经|都|刚|也|就|总算|现在|彻底|成功|顺利){{0,3}}(?:到账|成功|失败|解决|修好|搞定|完成|通过|恢复|好|跑通|修复|上线|退回|送达|收到|批下来|下来|批|拒|挂|过|排除|消失)(?:地)?(?:了|的)?(?!吗|没|不).*)", _outcome),
        (rf"^(?P<x>(?:把|将)?[^，你他她这那]{{2,24}}(?:之后|以后|后|，)[^，]{{0,4}}{_THING_DONE}[^，]{{0,6}}(?:就|终于|才)?(?:好|解决|正常|恢复|成功|搞定|修好|消失)(?:了|啦).*)", _outcome),
        (rf"^(?P<x>{_THING_DONE}?(?:的)?(?:原因|根因|问题|症结)(?:就?是|在于|出在)(?!什么|啥|不|这|那|你)[^，]{{2,}}.*)", _outcome),
        (r"^(?:我)?(?P<x>(?:成功|顺利|终于)(?:地)?(?:部署|修好|解决|修复|上线|完成|装好|跑通)了?[^这那它]{2,}.*)", _outcome),
        (rf"^{_WHEN}(?:{I}(?:的)?)?(?:现在|目前|如今|其实)?{ADVERBS}(?:最喜欢|最爱|最钟爱|最喜爱)(?:[吃喝看听玩用])?的(?P<category>[^是，]{{0,10}}?)(?:就|还|一直|现在|变成了?|改成了?)*是(?P<x>.+)", _favourite),
        (rf"^(?P<x>[^，我你他她这那]{{1,20}})(?:就|一直)?是{I}(?:现在)?(?:最喜欢|最爱|最钟爱)(?:[吃喝看听玩])?的(?P<category>[^，]{{0,10}})$", _favourite),
        (rf"^{_WHEN}(?:{I})?{ADVERBS}(?:从|由)[喝吃用]?(?P<old>[^，我你他她这那从由]{{1,10}}?)(?:改|换|转)(?P<x>(?:成|到|为)?[喝吃用][^，]{{1,20}})", _switch),
        (rf"^{_WHEN}(?:{I})?{ADVERBS}(?:改|换|转|换成|改成)(?P<x>(?:成|到|为)?[喝吃用看坐听玩骑][^，]{{1,20}})", _switch),
        (rf"^{_WHEN}(?:{I}{_DOING})?{ADVERBS}{DISLIKES}(?P<x>.*)", _taste(False)),
        (rf"^{_WHEN}(?:{I})?{ADVERBS}不(?:太|怎么|大)?能(?P<x>[吃喝坐穿]?(?:吃|喝)?(?:辣|酸|甜|苦|凉|生冷|冷|油腻|凉的|冰的)[^，]{{0,4}})$", _taste(False)),
        (rf"^{_WHEN}(?:{I})?(?P<x>[^，我你他她这那]{{1,10}})(?:我)?(?:是)?(?:一点都?)?(?:吃不惯|喝不惯|受不了|不感兴趣|接受不了)$", _taste(False)),
        (rf"^{_WHEN}(?:{I}{_DOING})?{ADVERBS}{LIKES}(?P<x>.*)", _taste(True)),
        (rf"^{_WHEN}(?:{I})?{ADVERBS}对(?P<x>[^，我你]{{1,14}}?)(?:一点都?|完全|根本|都)?(?:不感兴趣|没(?:有)?(?:什么)?兴趣|没(?:有)?(?:什么)?好感|无感)", _taste(False)),
        (rf"^{_WHEN}(?:{I})?{ADVERBS}对(?P<x>[^，我你]{{1,14}}?){ADVERBS}(?:感兴趣|很?有兴趣|着迷|情有独钟|痴迷|上瘾|兴趣浓厚)", _taste(True)),
        (rf"^{I}{ADVERBS}是(?:一名|一个|个)?(?:重度|资深|忠实|铁杆|狂热|骨灰级)?(?P<x>[^，我你]{{1,12}}?)(?:的)?(?:爱好者|发烧友|粉丝|迷|控|党|粉|死忠)$", _taste(True)),
        (rf"^(?:{_WHEN}|[^，我你他她这那]{{1,6}})(?:{I})?{ADVERBS}(?:只)(?P<x>[吃喝用看听坐穿买订住选][^，这那它]{{1,20}})$", _taste(True)),
        (rf"^(?:[^，]{{0,10}}(?:，|,))?(?:医生(?:说|让|嘱咐|建议)?)?(?:{I})?{ADVERBS}(?:乳糖不耐受，)?(?:从来不|从不|从来没|不能再|不可以|不能|不宜|不得|已经不|不再|没法|不会|不|忌口|忌|戒)(?:再|碰|沾|怎么)?(?:吃|喝|抽|碰|沾|开车|坐|熬夜)?(?<=[吃喝抽碰沾车坐夜口忌戒])(?P<x>[^，。]{{0,16}}).*", _own_limit),
        (r"^(?:[^，他她]{0,10}?(?:的)?)?(?:总)?(?:预算|价格|价位|费用|花费|总价|房租|月租|租金)(?:大概|最多|最高|上限|一共|总共|只有|控制|必须|不能|不要|别|不|得|要|大约|差不多|就|定)*(?:是|在|为|超过|有|超)?(?P<x>[^，]*[\d一二两三四五六七八九十百千万][^，]*)", lambda m: _price(m)),
        (r"^(?:请|你|麻烦)?(?:千万|绝对|一定|永远|以后|记住|都|也|坚决|拜托){0,4}(?:不要|别再|别|不准|不许|切勿|禁止|严禁|勿|不得|不能)(?:再|老是|总是|总|给我再)?(?P<x>.+)", _demand),
        (rf"^(?:{I})?(?P<head>[^，你他她它这那]{{1,12}}?)(?:都|也|一点都?|一口都?|完全|根本)*(?:不能(?:碰|吃|喝|沾|坐|用)|(?:吃|喝|坐|穿|戴|用)不了|碰不得|吃不得)(?:的)?(?P<x>)$", _cannot),
        (r"^(?P<head>[^，我你他她它这那今昨明]{1,12}(?:中|里|里面|上|时|时候|前|内|的话)?)(?:千万|绝对|一定|都|也|请|坚决|，){0,3}(?:不要|别再|别|不准|不许|切勿|禁止|严禁|不得|不能|不可以)(?:再|出现|使用|有)?(?P<x>.+)", _demand),
        (r"^(?:给我|帮我|为我|替我)?(?:推荐|订|选|买|点|安排)[^，]{1,10}?(?:的话|时|的时候|，)+(?:请|千万|一定)?(?:不要|别|避开|避免)(?P<x>.+)", _demand),
        (r"^(?P<head>(?:我的|我)[^，你他她它这那]{1,8}(?:里|中|里面|上))(?:千万|绝对|一定|都|也){0,3}(?:不要|别|不能|不得|不许|禁止)(?:再|出现|使用|有)?(?P<x>.+)", _demand),
        (r"^(?:一切|所有|全部|每个|每份|任何)(?:的)?[^，我你他这那]{1,10}(?:请|都|要|应该|应|得|须|一律)+(?:用|按|以|写|放|保持|改|标)(?P<x>.+)", _demand_always),
        (r"^(?:请|你|您|麻烦)*(?:必须|务必|一定要|每次都要?|始终要?|一律)(?P<x>.+)", _demand_always),
        (r"^(?P<head>[^，我你他她它这那今昨明]{1,14})(?:必须|务必|一定要|只能|一律|都要|都得)(?P<x>.+)", _demand_always),
    )
)  # fmt: skip


def _price(match: re.Match[str]) -> tuple[Found, ...] | Reason:
    """A stated budget is the user's; a limit on a price is a demand."""
    if "预算" in match.string:
        return _budget(match)
    if re.search(r"必须|不能|不要|以内|控制|不超过|最多|上限|别|不得", match.string):
        return (Found(asked(match.string), Kind.CONSTRAINT, Reason.CONSTRAINT, subjects.single("budget", match["x"])),)
    return Reason.UNRECOGNISED


def standing_request(action: str, opening: str = "以后") -> tuple[Found, ...] | Reason:
    """What follows 以后: an order to the assistant that outlives this turn."""
    if len(action) < 3 or re.search(r"(?:这样|那样|这个|那个|它)$", action):
        return Reason.INCOMPLETE
    negative = re.match(r"^(?:请|都|就|也|千万|绝对)*(?:不要|别|不准|不许|禁止|勿|不能)", action)
    content = f"用户要求{opening}" + third_person(re.sub(r"^(?:请|麻烦)", "", action)).strip("，,。 了")
    kind = Kind.CONSTRAINT if negative else Kind.PREFERENCE
    return (Found(content, kind, Reason.EXPLICIT_REQUEST, _about_answers(action)),)


def recognise_whole(statement: str) -> tuple[Found, ...] | None:
    """What only the statement before it is split says: "搞定了，换了根网线就通了"."""
    for pattern, build in _WHOLE:
        match = pattern.match(statement)
        found = build(match) if match else None
        if isinstance(found, tuple):
            return found
    return None


def recognise(clause: str) -> tuple[Found, ...] | Reason | None:
    """The statements in one clause; a reason where a rule knows better than to keep it; None where no rule speaks."""
    others = THIRD_PARTY.search(clause) and not re.search(r"(?:和|跟|与)我", clause)
    for pattern, build in FAMILY_RULES if others else (*FAMILY_RULES, *PROFILE_RULES, *_RULES):
        match = pattern.match(clause)
        if match:
            found = build(match)
            if found is not None:
                return found
    return None
