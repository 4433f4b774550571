"""Whether two entries say the same: a calibrated probability from their words and vectors, and what, if anything, tells them apart.

Vectors know what a sentence is about, not what it claims: "the budget is 2000" and "the budget is 3000" lie closer than most
rewordings. So a probability alone never decides: numbers, denial, liking, opposites and names must agree as well.
"""

import math
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from functools import lru_cache
from typing import Final

import regex

from memory.calibration import ModelStatistics
from memory.signals import negated, numbers
from memory.terms import content_terms, terms


class Difference(StrEnum):
    """What tells two similar texts apart, in the order in which it is looked for."""

    NUMBER = "number"
    POLARITY = "polarity"  # likes / dislikes
    NEGATION = "negation"
    CONTRAST = "contrast"  # morning / evening, mother / father, window / aisle
    NAME = "name"
    VALUE = "value"  # the same sentence with one part exchanged for another


# --- one word for one meaning -----------------------------------------------------------------------------------------

_DISLIKES = regex.compile(
    r"不太喜欢|不怎么喜欢|不喜欢|不喜|不爱|讨厌|厌恶|反感|受不了|怕(?=吃)"
    r"|\b(?:(?:do|does|did)(?: not|n't) (?:really )?(?:like|love|enjoy)|dislikes?|disliked|hates?|hated|can(?:no|')t stand|can not stand|"
    r"detests?|loathes?|(?:is )?not (?:fond of|keen on|into)|averse to)\b"
)
_LIKES = regex.compile(
    r"最喜欢|喜欢|喜爱|热爱|偏爱|爱好|钟爱|最爱|偏好|爱(?=[吃喝看听玩打养])"
    r"|\b(?:likes?|liked|loves?|loved|enjoys?|enjoyed|(?:is )?(?:fond of|keen on|into|crazy about)|is a (?:big )?fan of|adores?|prefers?|"
    r"preferred)\b"
)
_SYNONYMS: tuple[tuple["regex.Pattern[str]", str], ...] = tuple(
    (regex.compile(pattern), f" {word} ")
    for word, pattern in {
        "住": r"居住在|居住于|居住|定居在|定居于|定居|家住|住在|现居|家在",
        "工作": r"上班|任职|供职|就职|工作",
        "妻子": r"太太|老婆|爱人",
        "丈夫": r"先生|老公",
        "孩子": r"小孩子?|娃(?=娃|儿)?",
        "妈妈": r"母亲|老妈",
        "爸爸": r"父亲|老爸",
        "医生": r"大夫",
        "每天": r"天天|每日",
        "吃素": r"是个?素食主义者|是个?素食者|不吃肉",
        "计划": r"打算|准备(?=[\p{Han}]{2})",
        "买": r"购买|购入",
        "叫": r"名字(?:叫|是)|名叫|名为",
        "至多": r"不超过|不多于|最多",
        "至少": r"不低于|不少于|起码",
        "reside": r"\b(?:lives?|lived|resides?|is based|makes (?:his|her|their) home) (?=in\b|at\b|near\b)",
        "employ": r"\b(?:works?|is employed|has a job)\b",
        "vegetarian": r"\b(?:does not eat|doesn't eat|eats no|never eats) meat\b|\ba vegetarian\b",
        "each": r"\bevery(?: single)?\b",
        "plan": r"\b(?:(?:plans?|intends?|is (?:planning|going)) to)\b",
        "called": r"\bnamed\b|(?<=\bname )is\b",
        "most": r"\b(?:no|not) more than\b|\bat most\b|\bup to\b",
        "least": r"\b(?:no|not) (?:less|fewer) than\b|\bat least\b",
        "mother": r"\b(?:mum|mom)\b",
        "father": r"\bdad\b",
        "child": r"\b(?:kids?|children)\b",
        "car": r"\bautomobile\b",
        "doctor": r"\bphysician\b",
        "buy": r"\b(?:bought|purchased?|purchases)\b",
        "": r"用户的|用户|其实|真的|非常|特别|很|十分|比较|目前|现在|一直|平时"
        r"|\b(?:the user(?:'s)?|users?(?:'s)?|really|very(?: much)?|quite|currently|now|always|a lot)\b",
    }.items()
)


@lru_cache(maxsize=4096)
def _canonical(text: str) -> str:
    """Lower case, common synonyms brought to one word, "the user" and words of degree left out."""
    folded = unicodedata.normalize("NFKC", text).lower().replace("’", "'")
    folded = _LIKES.sub(" like ", _DISLIKES.sub(" dislike ", folded))
    for pattern, word in _SYNONYMS:
        folded = pattern.sub(word, folded)
    return str(folded)


# --- what tells them apart --------------------------------------------------------------------------------------------

_OPPOSITES = tuple(
    tuple(regex.compile(member) for member in group)
    for group in (
        (
            r"早上|早晨|上午|清晨|\bmornings?\b",
            r"下午|\bafternoons?\b",
            r"晚上|夜里|傍晚|\b(?:evenings?|nights?)\b",
            r"中午|\bnoon\b",
        ),
        (r"靠窗|\bwindow\b", r"过道|\baisle\b"),
        (r"妈妈|母亲|\b(?:mother|mum|mom)\b", r"爸爸|父亲|\b(?:father|dad)\b"),
        (r"哥哥|弟弟|\bbrothers?\b", r"姐姐|妹妹|\bsisters?\b"),
        (r"儿子|\bsons?\b", r"女儿|\bdaughters?\b"),
        (r"妻子|太太|老婆|\bwife\b", r"丈夫|先生|老公|\bhusband\b"),
        (r"左|\bleft\b", r"右|\bright\b"),
        (r"冰的?|冷|凉|\b(?:cold|iced)\b", r"热|烫|\bhot\b"),
        (r"甜|\bsweet\b", r"咸|\bsalty\b", r"辣|\bspicy\b", r"酸|\bsour\b"),
        (r"之前|以前|\bbefore\b", r"之后|以后|\bafter\b"),
        (r"全职|\bfull[- ]time\b", r"兼职|\bpart[- ]time\b"),
        (r"已婚|结了?婚|\bmarried\b", r"未婚|单身|\bsingle\b", r"离婚|离异|\bdivorced\b"),
        (r"成功|通过|\b(?:succeeded|succeeds|passed|worked)\b", r"失败|没通过|未通过|\bfailed\b"),
        (r"开始|\b(?:started|starts|begins|began)\b", r"停止|戒了?|不再|\b(?:stopped|stops|quit)\b"),
        (
            r"红|\bred\b",
            r"蓝|\bblue\b",
            r"绿|\bgreen\b",
            r"黑|深色|\b(?:black|dark)\b",
            r"白|浅色|\b(?:white|light)\b",
            r"黄|\byellow\b",
        ),
        (r"春", r"夏", r"秋", r"冬"),
        (r"\bspring\b", r"\bsummer\b", r"\bautumn\b|\bfall\b", r"\bwinter\b"),
        (
            r"周一|星期一|\bmondays?\b",
            r"周二|星期二|\btuesdays?\b",
            r"周三|星期三|\bwednesdays?\b",
            r"周四|星期四|\bthursdays?\b",
            r"周五|星期五|\bfridays?\b",
            r"周六|星期六|\bsaturdays?\b",
            r"周日|周天|星期[日天]|\bsundays?\b",
        ),
        (
            r"\bjanuary\b",
            r"\bfebruary\b",
            r"\bmarch\b",
            r"\bapril\b",
            r"\bmay\b(?=\s+\d|$)",
            r"\bjune\b",
            r"\bjuly\b",
            r"\baugust\b",
            r"\bseptember\b",
            r"\boctober\b",
            r"\bnovember\b",
            r"\bdecember\b",
        ),
    )
)
_LATIN_NAME = regex.compile(r"(?<![.!?。！？]\s)(?<!^)(?<![\p{Latin}'’])\p{Lu}[\p{Latin}\d]+(?:-\p{Lu}[\p{Latin}\d]+)*")
_HAN = regex.compile(r"\p{Han}")
_HAN_NAME = regex.compile(r"叫\s*(\p{Han}{1,6}?)(?=的|[\s，。、；]|$)")
_NO_NAMES = frozenset({"User", "The", "I'm", "A", "An", "English"})


def difference(first: str, second: str) -> Difference | None:
    """The first thing in which two texts contradict each other although their other words may be alike; None where nothing does.

    Only what both texts commit themselves to counts: "in Munich" beside nothing is more detail, "in Munich" beside "in Bonn" is not.
    """
    if _contradict(numbers(first), numbers(second)):
        return Difference.NUMBER
    stances = _polarity(first), _polarity(second)
    if stances[0] * stances[1] < 0:
        return Difference.POLARITY
    if not all(stances) and negated(_canonical(first)) != negated(_canonical(second)):
        return Difference.NEGATION
    one, other = _canonical(first), _canonical(second)
    for group in _OPPOSITES:
        here = {i for i, member in enumerate(group) if member.search(one)}
        there = {i for i, member in enumerate(group) if member.search(other)}
        if _contradict(here, there):
            return Difference.CONTRAST
    if _contradict(_names(first), _names(second)):
        return Difference.NAME
    return Difference.VALUE if _exchanged(first, second) else None


def _exchanged(first: str, second: str) -> bool:
    """Whether the two differ in exactly one place, where both have a word of their own. That is how a changed value looks (陈 / 王,
    tea / coffee); an unknown synonym looks the same, and is then kept as an entry of its own: two entries of one fact do less harm
    than one entry that silently took another's value."""
    one, other = _words(first), _words(second)
    changes = [
        change for change in SequenceMatcher(None, one, other, autojunk=False).get_opcodes() if change[0] != "equal"
    ]
    if len(changes) != 1 or changes[0][0] != "replace":
        return False
    _, start, end, other_start, other_end = changes[0]
    return any(map(content_terms, one[start:end])) and any(map(content_terms, other[other_start:other_end]))


def _words(text: str) -> list[str]:
    """Stems and single Han characters in order; numbers, compared elsewhere, all look alike."""
    return [term for term in terms(_NUMERALS.sub(" 0 ", _canonical(text))) if len(term) == 1 or not _HAN.match(term)]


def _contradict(here: Collection[object], there: Collection[object]) -> bool:
    """Both say something, and neither says all that the other does."""
    one, other = set(here), set(there)
    return bool(one - other) and bool(other - one)


def _polarity(text: str) -> int:
    canonical = _canonical(text)
    if "dislike" in canonical:
        return -1
    if regex.search(r"\blike\b", canonical):
        return 1
    return 0


def _names(text: str) -> frozenset[str]:
    latin = {name.lower() for name in _LATIN_NAME.findall(text) if name not in _NO_NAMES}
    return frozenset(latin.union(_HAN_NAME.findall(_canonical(text))))


# --- probability ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Likeness:
    """`overlap`: Jaccard index of the two sets of terms. `contained`: share of the smaller set that the larger has. `nearness`: how much
    closer the two vectors are than unrelated ones, as the logarithm of the ratio of distances; None without vectors.

    1 - cosine is half a squared distance, which ends at 0 for every model, while its unrelated pairs lie anywhere: the ratio to
    those compares across models.
    """

    overlap: float
    contained: float
    nearness: float | None

    def inputs(self) -> dict[str, float]:
        """What the regression sees, by name. Nearness is clipped where more of it says no more."""
        semantic = {} if self.nearness is None else {"nearness": self.nearness}
        return semantic | {"overlap": self.overlap, "contained": self.contained}


MAX_NEARNESS = 4.0


def _nearness(cosine: float, statistics: ModelStatistics) -> float:
    unrelated = max(1.0 - statistics.pooled_mean, 1e-6)
    return min(max(-math.log(max(1.0 - cosine, 1e-6) / unrelated), 0.0), MAX_NEARNESS)


Weights = Mapping[str, float]

# Logistic regressions on benchmarks/data/same_fact.jsonl, as printed by `python -m benchmarks.merge --fit`.
WITH_VECTORS: Final[Weights] = {"bias": -11.37, "nearness": 3.87, "overlap": 6.59, "contained": 1.47}
# Without vectors the bias is 1 lower than fitted: words alone made one mistake in twenty on held-out pairs.
WORDS_ALONE: Final[Weights] = {"bias": -4.92, "overlap": 8.16, "contained": 1.7}


def likeness(first: str, second: str, cosine: float | None, statistics: ModelStatistics | None) -> Likeness:
    one, other = _terms(first), _terms(second)
    shared = len(one & other)
    smaller = min(len(one), len(other))
    return Likeness(
        overlap=shared / len(one | other) if smaller else 0.0,
        contained=shared / smaller if smaller else 0.0,
        nearness=None if cosine is None or statistics is None else _nearness(cosine, statistics),
    )


def same_probability(like: Likeness, weights: Weights | None = None) -> float:
    """Probability in (0, 1) that the two say the same, if nothing tells them apart (see `difference`)."""
    if weights is None:
        weights = WORDS_ALONE if like.nearness is None else WITH_VECTORS
    logit = weights["bias"] + sum(weights[name] * value for name, value in like.inputs().items())
    return 1.0 / (1.0 + math.exp(-logit))


def frame_overlap(first: str, second: str) -> float:
    """Overlap of what the two say beside numbers and denials: 1 where only those differ. What a correction must share with the
    entry that it corrects."""
    one, other = _frame(first), _frame(second)
    return len(one & other) / len(one | other) if one and other else 0.0


_NUMERALS = regex.compile(
    r"[\d零〇一二三四五六七八九十百千万亿两](?:[\d零〇一二三四五六七八九十百千万亿两,.:-]*[\d零〇一二三四五六七八九十百千万亿两])?"
    r"|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|hundred|thousand)\b"
)
_DENIALS = regex.compile(
    r"不再|不|没有|没|别|可以|能|会|\b(?:not|never|no longer|cannot|no)\b|\b(?:do|does|did)n't\b|n't\b"
)


@lru_cache(maxsize=4096)
def _terms(text: str) -> frozenset[str]:
    """Of the canonical wording, numbers in one form ("三千" and "3000")."""
    words = content_terms(_NUMERALS.sub(" ", _canonical(text)))
    return frozenset(words) | {f"#{number}" for number in numbers(text)}


def same_value(first: str, second: str) -> bool:
    """Whether two values of one attribute are the same: "两千元" is "2000元", "2,000 euros" is "2000 euros"."""
    if first == second:
        return True
    counted = numbers(first)
    return bool(counted) and counted == numbers(second) and _unit(first) == _unit(second)


def _unit(value: str) -> str:
    return "".join(_NUMERALS.sub("", _canonical(value)).split())


@lru_cache(maxsize=4096)
def _frame(text: str) -> frozenset[str]:
    canonical = _canonical(text).replace("dislike", "like")
    return frozenset(content_terms(_DENIALS.sub(" ", _NUMERALS.sub(" ", canonical))))
