"""What a text is found by: its terms. One analyzer for entries and questions, for both tiers.

Latin words are lower-cased, stemmed and freed of accents; Han, kana, Hangul and Thai become single characters and pairs, so that
two-character words (北京, 预算) are found (P13); numbers and order numbers stay whole.
"""

import unicodedata
from collections.abc import Iterator
from functools import lru_cache

import regex
import snowballstemmer

from memory.text import CJK, FUNCTION_WORDS_OF, language, words_of

_UNSPACED = CJK + r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_W = rf"[[\p{{L}}\p{{M}}\p{{N}}]--[{_UNSPACED}]]"
_TOKEN = regex.compile(
    rf"(?V1)(?P<unspaced>[[{_UNSPACED}]\p{{M}}]+)"
    r"|(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d)|\d+\.\d+(?![\p{Latin}.]|\d))"
    r"|(?P<acronym>(?:\p{Latin}\.){2,}\p{Latin}?(?!\p{Latin}))"
    r"|(?P<named>\p{Latin}(?:\+\+|\#)(?!\w))"
    rf"|(?P<word>{_W}+(?:[-_.:/@+'’]{_W}+)*)"
)
_PART = regex.compile(r"[-_.:/@+]")
_MAX_TERM = 64

_STEMMED = {
    "en": "english",
    "fr": "french",
    "de": "german",
    "es": "spanish",
    "ru": "russian",
    "el": "greek",
    "ar": "arabic",
    "hi": "hindi",
}
_SCRIPT_LANGUAGE = ((0x0370, 0x03FF, "el"), (0x0400, 0x052F, "ru"), (0x0600, 0x06FF, "ar"), (0x0900, 0x097F, "hi"))

_FUNCTION_CHARACTERS = frozenset(
    "的了是我你您他她它们在和与及或就都也还很把被给对从让这那哪什么怎吗呢吧啊呀嘛哦着过个地得之其请"  # Chinese
    "은는이가을를에의도로와과"  # Korean
)
_DENIALS = words_of("not don't doesn't didn't ne pas nicht kein keine no")
_FUNCTION_WORDS = words_of(
    "a an the i me my mine we us our you your yours he him his she her hers it its they them their this that these those is am are was "
    "were be been being do does did done have has had having will would shall should can could may might must of to in on at by for "
    "from with about into as and or but if then than so too very just also there here what which who whom whose when where why how "
    "i'm i've i'd i'll you're you've it's that's he's she's we're they're s t ll ve re d m"
)


def _script_language(word: str, latin: str) -> str:
    code = ord(word[0])
    return next((name for low, high, name in _SCRIPT_LANGUAGE if low <= code <= high), latin)


def _bare(word: str) -> str:
    """Without accents, where the letter under them is Latin: "café" is looked for as "cafe", but й is not и nor が か."""
    if word.isascii():
        return word
    letters = unicodedata.normalize("NFD", word)
    kept = [c for i, c in enumerate(letters) if not (unicodedata.combining(c) and i and letters[i - 1].isascii())]
    return unicodedata.normalize("NFC", "".join(kept))


@lru_cache(maxsize=65_536)
def _stem(word: str, code: str) -> str:
    # a stemmer keeps state between calls: one per call is what makes this safe in threads
    stemmer = snowballstemmer.stemmer(_STEMMED[code])
    return _bare(
        str(stemmer.stemWord(_bare(word) if code == "en" else word))
    )  # other languages' rules need the accents


def _word_terms(word: str, latin: str, drop: frozenset[str]) -> Iterator[str]:
    if word in drop:
        return
    if any(c.isnumeric() for c in word):
        yield word
        return
    code = _script_language(word, latin)
    stem = _stem(word, code)
    yield stem
    if code in ("fr", "de", "es") and (english := _stem(word, "en")) != stem:
        yield english  # a question of one word is taken for English: it must meet this word all the same


def _run_terms(run: str, drop: frozenset[str]) -> Iterator[str]:
    """Characters and pairs of a run that is written without spaces; with `drop`, those that carry nothing by themselves are left out."""
    previous = ""
    for character in run:
        empty = bool(drop) and (character in _FUNCTION_CHARACTERS or "\u3040" <= character <= "\u309f")
        if not empty:
            yield character
        if previous and not (empty and previous in _FUNCTION_CHARACTERS):
            yield previous + character
        previous = character


def _analyse(text: str, drop: frozenset[str]) -> Iterator[str]:
    folded = unicodedata.normalize("NFKC", text).lower()
    latin = language(text)
    latin = latin if latin in ("fr", "de", "es") else "en"
    if drop:
        drop |= FUNCTION_WORDS_OF[latin] - _DENIALS
    for token in _TOKEN.finditer(folded):
        found = token.group()
        match token.lastgroup:
            case "unspaced":
                yield from _run_terms(found, drop)
            case "number":
                yield found.replace(",", "")[:_MAX_TERM]
            case "acronym":
                yield found.replace(".", "")[:_MAX_TERM]
            case "named":
                yield found
            case _:
                parts = _PART.split(found)
                if len(parts) > 1 and any(c.isnumeric() for c in found):
                    yield found[:_MAX_TERM]  # an order number, a date, a version: whole, and by its parts below
                for part in parts:
                    yield from _word_terms(part[:_MAX_TERM].replace("’", "'").strip("'"), latin, drop)


def terms(text: str) -> list[str]:
    """Every term of `text` in order, repeats included; at most 64 characters each. Linear in the text."""
    return list(_analyse(text, frozenset()))


def content_terms(text: str) -> list[str]:
    """`terms` without function words (the, my, 的, 我们, は), denials kept: for comparing what two texts are about."""
    return list(_analyse(text, _FUNCTION_WORDS))
