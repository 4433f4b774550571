"""Chinese clauses from the first person into the third."""

import re

_KEPT = r"(?:自我|忘我|唯我|你我他|敌我|大我|小我|我行我素|我的世界)"
_US = re.compile(r"(?:我们|咱们|咱)(?:的)?(?=(?:公司|团队|部门|学校|单位|小组|班|店|厂|项目|组|家|小区))")
_WE = re.compile(r"(?:我们|咱们|咱)俩?")
_ME = re.compile(rf"{_KEPT}|我自己|本人|我(?:这个人|这人)|我|俺")
_YOU = re.compile(r"(?:你们|您|你)")
_RELATIVE = re.compile(
    r"^用户(?=(?:大|小|二)?(?:女儿|儿子|孩子|闺女|老婆|妻子|太太|媳妇|爱人|老公|丈夫|先生|男朋友|女朋友|宝宝|妈妈|爸爸|妈|爸|姐姐|妹妹|哥哥|弟弟)(?!和))"
)
_LEAD = re.compile(
    r"^(?:其实|说实话|老实说|说真的|对了|嗯+|那个|话说|顺便说一下|顺便说|另外|是的|对|好的|哦|啊|呃|就是)[，,\s]*(?=.)"
)
_TAIL = re.compile(
    r"(?<=.)(?:了?(?:啊|呀|哦|哈|啦|呢|哟|喔|噢|嘛|吧|哒|滴|喽|哇)+|[。．.！!；;，,~～…\s]+|[\U0001F000-\U0001FAFF\u2600-\u27BF\ufe0f\u200d]+|(?:哈哈+|嘿嘿+|谢谢|多谢|拜托了?|就好|就行|即可)(?=$))$"
)
_ENGLISH = re.compile(r"\b(?:my|me)\b")


def _me(match: re.Match[str]) -> str:
    found = match.group()
    return found if re.fullmatch(_KEPT, found) else "用户"


def third_person(clause: str) -> str:
    """我 -> 用户, 你 -> 助手; everything else as it was said."""
    text = _US.sub("用户的", clause)
    text = _WE.sub("用户这边", text)
    text = _YOU.sub("助手", text)
    text = _ME.sub(_me, text)
    return _RELATIVE.sub("用户的", text)


def bare(text: str) -> str:
    """Without opening fillers, closing particles and marks."""
    for _ in range(4):
        shorter = _TAIL.sub("", _LEAD.sub("", text.strip()))
        if shorter == text:
            break
        text = shorter
    return text


def sentence(clause: str) -> str:
    """The statement with 用户 as its subject where it has none."""
    text = third_person(clause).strip("，,。；; ")
    return (
        text
        if text.startswith(("用户", "从"))
        or ("用户" in text[:12] and not text.startswith(("不", "别", "喜", "讨", "爱")))
        else "用户" + text
    )
