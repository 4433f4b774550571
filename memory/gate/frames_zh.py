"""What stands around a Chinese statement: 记住…, 以后…, 说错了…."""

import re

from memory.gate.frames import Frame
from memory.gate.rewriting_zh import bare

_EXPLICIT = re.compile(
    r"^(?:请|麻烦|帮我|帮忙|你|您|要|得|一定|给我|拜托|也|再|可以|能不能|能|务必|先|千万){0,5}"
    r"(?:记住|记一下|记下来|记下|记着|记好了?|记牢|牢记|谨记|备注一下|备注|备忘|别忘了|不要忘了|别忘记|不要忘记|记得(?=我|：|:|，|以后|我们|俺)|存一下|记录一下)"
    r"(?:一下|下来|这个|这点|这件事|这一点|哈|啊|了|哦|以下|这条)*[：:，,\s]*(?=.)"
)
_STANDING = re.compile(
    r"^(?:请|那么?|你|我希望|希望你?|麻烦)*(?P<opening>以后|今后|往后|之后|从现在起|从现在开始|从今以后|从今往后|从今天起|从今天开始|从此以后|从此|接下来都|默认|日后)(?:的话)?[，,\s]*(?=.)"
)
_CORRECTION = re.compile(
    r"^(?:(?:不对|错了|说错了|我说错了|刚才说错了|刚刚说错了|记错了|我记错了|搞错了|弄错了|写错了|打错了|更正一下|更正|纠正一下|纠正|修正一下|订正一下|抱歉|对不起|不好意思|等等|等一下|哦不|不不|不是的|口误)(?:[，,。：:！!\s]+|$)(?=.)|(?:其实|实际上|事实上|应该是说|我的意思是|我是说|准确地说|确切地说)[，,：:\s]*(?=.))+"
)
_FILLER = re.compile(
    r"^(?:大家好|你好|您好|嗨|哈喽|hi|hello|嗯+|哦|啊|呃|那个|对了|话说|另外|顺便说一下|顺便说一句|顺便|补充一下|补充一点|说实话|老实说|说真的|讲真|好的|好吧|行|是的|对|对的|没错|我跟你说|跟你说|告诉你|你知道|我觉得|我感觉|总之|首先|还有)[，,、：:！!\s]+(?=.)",
    re.IGNORECASE,
)


def unframe(sentence: str) -> Frame:
    """The statement without what stands around it, and what that said."""
    explicit = standing = corrects = False
    opening = ""
    for _ in range(6):
        before = sentence
        match = _CORRECTION.match(sentence)
        if match and not re.match(r"^(?:抱歉|对不起|不好意思|等等|等一下)[，,。：:！!\s]*$", match.group()):
            sentence, corrects = sentence[match.end() :], True
        match = _EXPLICIT.match(sentence)
        if match:
            sentence, explicit = sentence[match.end() :], True
        match = _STANDING.match(sentence)
        if match:
            sentence, standing = sentence[match.end() :], True
            opening = opening or match["opening"]
            if match.group().rstrip("，, ").endswith("默认") and not explicit:
                sentence, opening = "默认" + sentence, opening.removesuffix("默认")
        filler = _FILLER.match(sentence)
        if filler:
            sentence = sentence[filler.end() :]
        if sentence == before:
            break
    return Frame(bare(sentence), explicit=explicit, standing=standing, corrects=corrects, opening=opening)
