"""What decides between two sentences whose vectors are close: their numbers, and whether they deny.

"My budget is 2000" and "my budget is 3000" are different facts, "I eat pork" and "I don't eat pork" are opposite ones, however
near an embedding puts them.
"""

import unicodedata
from decimal import Decimal

import regex


def _counted(listed: str, start: int, step: int) -> dict[str, int]:
    return {word: start + step * n for n, word in enumerate(listed.split())}


_UNITS = _counted(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen",
    0,
    1,
)
_TENS = _counted("twenty thirty forty fifty sixty seventy eighty ninety", 20, 10)
_SCALES = {"hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_WORD = "|".join([*_UNITS, *_TENS, *_SCALES])
_DIGITS = {c: n for n, c in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_CHINESE_SCALES = {"十": 10, "百": 100, "千": 1_000, "万": 10_000, "亿": 100_000_000}
_SUFFIXES = {"k": 1_000, "千": 1_000, "万": 10_000, "亿": 100_000_000}
_MEASURES = (
    "个只条名位岁年月日号天周点秒块元角毛斤克吨米里次遍杯瓶碗盘包盒本张台辆架部件套双对楼层室间家口人倍度期届页集章楼栋"
)

_NUMBER = regex.compile(
    r"(?P<date>(?<![\w.])\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?![\d.]))|(?P<clock>(?<![\d:])\d{1,2}:\d{2}(?![\d:]))"
    r"|(?P<code>(?<![\p{Latin}\d_-])(?=[\p{Latin}\d_-]*\d)(?=[\d_-]*[A-Za-z])[A-Za-z\d]+(?:[-_][A-Za-z\d]+)+)"
    r"|(?P<digits>(?<![\p{Latin}\d.])-?\d{1,3}(?:,\d{3})+(?:\.\d+)?|(?<![\p{Latin}\d.])-?\d+(?:\.\d+)?)(?P<suffix>k(?![\p{Latin}])|\s?[千万亿])?"
    rf"|(?P<words>(?<!\p{{Latin}})(?:{_WORD})(?:(?:[\s-]|\sand\s)+(?:{_WORD}))*(?!\p{{Latin}}))"
    rf"|(?P<chinese>[零〇一二三四五六七八九两十百千万亿]{{2,}}|[二三四五六七八九两十](?=分钟|[{_MEASURES}]))"
)


def _plain(value: Decimal) -> str:
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _english(words: list[str]) -> int:
    total = current = 0
    for word in words:
        if word == "hundred":
            current = max(current, 1) * 100
        elif word in _SCALES:
            total += max(current, 1) * _SCALES[word]
            current = 0
        else:
            current += _UNITS.get(word, _TENS.get(word, 0))
    return total + current


def _chinese(numeral: str) -> int | None:
    """Digit by digit (二〇二六) or by scales (三千五); None for what only looks like a number (万一, 两三, 千万)."""
    if not any(c in _CHINESE_SCALES for c in numeral):
        by_digits = len(numeral) != 2 or any(c in "零〇" for c in numeral)
        return int("".join(str(_DIGITS[c]) for c in numeral)) if by_digits else None
    if len(numeral) > 1 and numeral[0] in "百千万亿":
        return None
    total = section = digit = 0
    scale = last_scale = 1
    for character in numeral:
        if character in _DIGITS:
            digit = _DIGITS[character]
            last_scale = 1 if character in "零〇" else scale
            continue
        scale = _CHINESE_SCALES[character]
        if scale >= 10_000:
            total += (section + digit) * scale
            section = 0
        else:
            section += max(digit, 1) * scale
        digit, last_scale = 0, scale
    if digit and last_scale > 10 and numeral[-1] in _DIGITS and numeral[-2] in _CHINESE_SCALES:
        digit *= last_scale // 10  # 三千五 is 3500
    return total + section + digit


def numbers(text: str) -> tuple[str, ...]:
    """The numbers of `text` in order, in one form: "2,000", "2k", "2千", "两千", "two thousand" are all "2000".

    Dates and clock times stay whole ("2026-11-30", "9:30"), order numbers too ("ord-0001"). A lone 一 or "one" is an article.
    """
    found: list[str] = []
    for match in _NUMBER.finditer(unicodedata.normalize("NFKC", text).lower()):
        if match["digits"]:
            value = Decimal(match["digits"].replace(",", "")[:40])
            found.append(_plain(value * _SUFFIXES.get((match["suffix"] or "").strip(), 1)))
        elif match["words"]:
            words = [word for word in regex.split(r"[\s-]+", match["words"]) if word != "and"]
            if words != ["one"]:
                found.append(str(_english(words)))
        elif match["chinese"]:
            if (number := _chinese(match["chinese"])) is not None:
                found.append(str(number))
        else:
            found.append(match.group().replace("/", "-") if match["date"] else match.group())
    return tuple(found)


# --- negation ---------------------------------------------------------------------------------------------------------

_NOT_A_DENIAL = regex.compile(
    r"不得不|不能不|不会不|不是不|没有不|不错|不仅|不但|不光|不止|差不多|不过(?!敏)|不论|不管|不好意思|对不起|不客气|不久|不断|不一会儿|不如"
    r"|没关系|没事|没问题|没错|没准|非常|无论|无所谓|别人|别的|特别|区别|分别|级别|性别|别墅|告别|个别|类别|识别|道别|未来|除非|非洲|无锡"
    r"|(\p{Han}{1,2})不\1|有没有|要不要|能不能|会不会"
    r"|\bnot only\b|\bno (?:problem|doubt|worries|wonder|matter)\b|\bnot (?:bad|too bad)\b|\bcan(?:'t|not) help\b"
    r"|\bcan(?:'t|not) wait\b|\bwhy (?:not|don't)\b|\bno\.(?=\s?\d)"
)
_DENIAL = regex.compile(
    r"[不没别勿非未]|无(?!\w*锡)|莫要|\b(?:not|never|no|none|nobody|nothing|neither|nor|without|cannot|hardly|dont|doesnt|didnt|cant|wont|isnt)\b"
    r"|n't\b"
)


def negated(text: str) -> bool:
    """Whether `text` denies something (不, 没, 别, not, never, no, n't), set phrases that only look so (不错, 特别, not only) aside."""
    folded = unicodedata.normalize("NFKC", text).lower().replace("’", "'")
    return bool(_DENIAL.search(_NOT_A_DENIAL.sub(" ", folded)))
