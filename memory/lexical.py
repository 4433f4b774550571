"""Keywords: BM25 over small sets of term lists, and how much of a question an entry covers.

An index has its own BM25. This one serves rows that wait for the index (P37), and the benchmarks. Terms come from
memory/terms.py: stemmed Latin words, and uni- and bigrams of Chinese, Japanese and Korean.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memory.terms import content_terms

Document = Mapping[str, float]
"""Weighted term frequencies."""

K1: Final = 1.2
B: Final = 0.75
CONTEXT_WEIGHT: Final = 0.5
"""Of the terms of the turn before an entry, beside the entry's own."""


def document(
    terms: Iterable[str], context_terms: Iterable[str] = (), context_weight: float = CONTEXT_WEIGHT
) -> Document:
    """An entry's own terms, and at a lower weight those of the turn before it ("window BM25")."""
    counts: dict[str, float] = dict(Counter(terms))
    for term in context_terms:
        counts[term] = counts.get(term, 0.0) + context_weight
    return counts


class Bm25:
    """Okapi BM25 (Robertson and Zaragoza, 2009) with idf ln(1 + (N - n + .5) / (n + .5)), which is never negative."""

    def __init__(self, documents: Sequence[Document]) -> None:
        lengths = np.array([sum(d.values()) for d in documents], dtype=np.float64)
        mean = float(lengths.mean()) if len(documents) and lengths.any() else 1.0
        self._saturation = K1 * (1 - B + B * lengths / mean)
        self._count = len(documents)
        self._postings: dict[str, list[tuple[int, float]]] = {}
        for i, frequencies in enumerate(documents):
            for term, frequency in frequencies.items():
                self._postings.setdefault(term, []).append((i, frequency))

    def idf(self, term: str) -> float:
        found = len(self._postings.get(term, ()))
        return math.log1p((self._count - found + 0.5) / (found + 0.5))

    def scores(self, question: Collection[str]) -> NDArray[np.float64]:
        """float64 [documents]; 0 where no term is shared. A term that the question repeats counts as often."""
        scores = np.zeros(self._count)
        for term, times in Counter(question).items():
            idf = self.idf(term) * times
            for i, frequency in self._postings.get(term, ()):
                scores[i] += idf * frequency * (K1 + 1) / (frequency + self._saturation[i])
        return scores


def _is_cjk(term: str) -> bool:
    return term[0] >= "\u3040"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words of questions that carry no subject beyond the function words that memory/terms.py leaves out; stems.
_ASKING: Final = _words(
    "again anyth best can do did get give go good got hello help hey hi just know let like mani more much need no not now ok "
    "okay on one out pleas right say see some someth sure take tell thank thing think use want way well what yes "
    "怎么 什么 哪里 哪个 怎样 如何 多少 一下 可以 能不 不能 帮我 帮忙 我们 你们 你好 谢谢 好的 知道 告诉 问题 有什 么样 样的 一个 "
    "这个 那个 哪些 几个 是不 吗 呢 你 我 不 有 没 会 能 可 以 帮 请 谁 几 好 要 想 一 个 里 在 多 少 样"
)
# Found in nearly every entry about a person: they count, but little.
_COMMON: Final = _words(
    "user love prefer enjoy favorit favourit hate dislik feel recommend suggest often usual alway never "
    "用户 喜欢 喜爱 偏好 讨厌 觉得 推荐 建议 需要 希望 时候 现在 今天 最近 比较 一般 习惯"
)
COMMON_WEIGHT: Final = 0.25
PART_CREDIT: Final = 0.4


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of a question's subject: a Latin word, or one CJK character. `whole` are the terms that prove it (the word; the pairs
    that the character is in), `part` the lone character, which proves less: 花 is in 花生 and in 花费."""

    weight: float
    whole: frozenset[str]
    part: str | None = None


def question_content(question: str) -> tuple[Unit, ...]:
    """What carries a question's subject: no function words, no words of asking, and little weight on what is said of everything.

    Two CJK characters weigh as much as one Latin word.
    """
    found = dict.fromkeys(content_terms(question))
    units = []
    for term in found:
        if term in _ASKING or (_is_cjk(term) and len(term) > 1):
            continue
        if not _is_cjk(term):
            units.append(Unit(COMMON_WEIGHT if term in _COMMON else 1.0, frozenset({term})))
            continue
        pairs = frozenset(
            pair
            for pair in found
            if len(pair) == 2 and term in pair and pair not in _ASKING and _ASKING.isdisjoint(pair)
        )
        common = any(pair in _COMMON for pair in pairs)
        units.append(Unit(0.5 * (COMMON_WEIGHT if common else 1.0), pairs, term))
    return tuple(units)


def coverage(question: Sequence[Unit], entry: Collection[str]) -> float:
    """Share in [0, 1] of the question's subject, by weight, that the entry has too. 0 for a question without a subject.

    It looks at one entry alone, so it means the same beside three other entries or three thousand.
    """
    total = covered = 0.0
    for unit in question:
        total += unit.weight
        if not unit.whole.isdisjoint(entry):
            covered += unit.weight
        elif unit.part is not None and unit.part in entry:
            covered += unit.weight * PART_CREDIT
    return covered / total if total else 0.0


_SELF: Final = _words("i me my mine we us our 我 咱 俺")
_FAVOURS: Final = _words("tell give show help explain teach let 帮 给 诉 教 跟 替")
_ADVICE: Final = _words(
    "recommend suggest should advic idea plan tonight tomorrow weekend "
    "推荐 建议 该不 适合 合适 么好 里好 哪好 计划 规划 打算 安排 今晚 明天 周末"
)


def is_personal(terms: Sequence[str]) -> bool:
    """Whether a question is about its asker ("where do I live", "我的猫"), or asks for advice or plans, which should fit the asker.

    "Tell me", "帮我" address the assistant and say nothing about the asker.
    """
    if not _ADVICE.isdisjoint(terms):
        return True
    words = [t for t in terms if len(t) == 1 or not _is_cjk(t)]
    return any(
        word in _SELF and (i == 0 or (words[i - 1] not in _FAVOURS and words[i - 1] != "to"))
        for i, word in enumerate(words)
    )
