"""Plain text: its normal form, language, sentences and characters as people count them.

Everything here runs in time linear in the text, and none of it depends on a locale.
"""

import hashlib
import unicodedata
from itertools import pairwise

import regex

# Full-width punctuation and the ellipsis are how Chinese and Japanese are written: NFKC would turn "，" into ",".
_KEPT_AS_WRITTEN = regex.compile(r"[！，：；？（）…～]+")
# Controls, lone surrogates and everything that is invisible yet read by a tokenizer (bidi overrides, tag characters, variation
# selectors of the supplement: text can be smuggled in them). Joiners stay: emoji and Persian need them.
_INVISIBLE = regex.compile(
    r"(?V1)[[\p{Cc}\p{Cs}\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\U000e0000-\U000e0fff]--[\s]]"
)
_SPACE = regex.compile(r"\s+")
_NOT_WORDS = regex.compile(r"(?V1)[\p{P}\s]")

CJK = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Bopomofo}ー"
"""Inside a character class: scripts that are written without spaces, or (Korean) whose endings are glued to the word."""

_SPACE_AT_CJK = regex.compile(rf"(?<=[{CJK}])\s+|\s+(?=[{CJK}])")


def words_of(listed: str) -> frozenset[str]:
    """The words of a list that is written as one string."""
    return frozenset(listed.split())


def normalise(text: str) -> str:
    """NFKC, control and invisible characters removed, white space (line breaks too) collapsed to single spaces; case is kept.

    Full-width punctuation is kept as written, full-width letters and digits are not. Idempotent. Split sentences before this:
    a line break ends one.
    """
    visible = _INVISIBLE.sub("", text)
    if not visible.isascii():
        pieces, start = [], 0
        for kept in _KEPT_AS_WRITTEN.finditer(visible):
            pieces += [unicodedata.normalize("NFKC", visible[start : kept.start()]), kept.group()]
            start = kept.end()
        pieces.append(unicodedata.normalize("NFKC", visible[start:]))
        visible = "".join(pieces)
    return str(_SPACE.sub(" ", visible)).strip()


def graphemes(text: str) -> list[str]:
    """What a reader counts as characters: accents, emoji sequences and flags are never parted (P32)."""
    return list(regex.findall(r"\X", text))


_MARKS_IN_NUMBERS = regex.compile(r"(?<=\d)[.:/\-](?=\d)|(?<![\w.])-(?=\d)|%|(?<=\p{L})#")
_THOUSANDS = regex.compile(r"(?<=\d),(?=\d{3}(?!\d))")


def fingerprint(text: str) -> str:
    """32 hex characters that are equal for texts that say the same in the same words, whatever their case, punctuation and spacing.

    Signs that change the meaning stay: "3.5" is not "35", "-5" not "5", "C++" not "C".
    """
    folded = unicodedata.normalize("NFKC", normalise(text)).casefold()
    folded = _THOUSANDS.sub("", folded).replace("'", "").replace("’", "")
    kept, start = [], 0
    for mark in _MARKS_IN_NUMBERS.finditer(folded):
        kept += [_NOT_WORDS.sub(" ", folded[start : mark.start()]), mark.group()]
        start = mark.end()
    kept.append(_NOT_WORDS.sub(" ", folded[start:]))
    bare = _SPACE_AT_CJK.sub("", _SPACE.sub(" ", "".join(kept)).strip())
    return hashlib.blake2b(bare.encode(), digest_size=16).hexdigest()


# --- language ---------------------------------------------------------------------------------------------------------

_LANGUAGE_SAMPLE = 4_000
"""Characters looked at: enough to know, and a megabyte costs no more."""

_SCRIPTS = regex.compile(
    r"(?P<han>\p{Han}+)|(?P<kana>[\p{Hiragana}\p{Katakana}]+)|(?P<hangul>\p{Hangul}+)|(?P<latin>[\p{Latin}\p{M}'’]+)"
    r"|(?P<ru>\p{Cyrillic}+)|(?P<el>\p{Greek}+)|(?P<ar>\p{Arabic}+)|(?P<he>\p{Hebrew}+)|(?P<hi>\p{Devanagari}+)|(?P<th>\p{Thai}+)"
)
_OTHER_SCRIPTS = ("ru", "el", "ar", "he", "hi", "th")
_CHINESE_FUNCTION = frozenset("的了是我你您他她它们在不没吗呢吧这那和跟把被给就都也还很要想会能帮请")
_FUNCTION_WORDS = {
    "en": "the a an i i'm i've my you your he she it it's we they is are was be do don't does did have has not to of in on at and or "
    "for with that this what who when where how please me",
    "fr": "le la les un une des du je j'ai tu il elle nous vous ils est sont suis ne pas que qui et ou dans sur avec pour mon ma mes "
    "ce cette au aux c'est",
    "de": "der die das den dem ein eine einen einem ich du er sie wir ihr ist sind bin war nicht kein keine und oder mit für auf im am "
    "zu von mein meine es dass wie was wo",
    "es": "el la los las un una unos yo tú él ella nosotros es son soy está estoy no que y o en con para por mi mis su sus del al me "
    "se muy como",
}
FUNCTION_WORDS_OF = {code: words_of(words) for code, words in _FUNCTION_WORDS.items()}
"""By ISO 639-1 code, lower-case: they tell Latin-script languages apart, and say little by themselves."""


def language(text: str) -> str:
    """The ISO 639-1 code of the language that `text` is mostly in: by script, then by function words among Latin ones ("en" if none tell).

    Chinese with English names in it is "zh"; English with a Chinese name in it is "en"; kana makes Japanese.
    """
    counts = dict.fromkeys(("han", "kana", "hangul", *_OTHER_SCRIPTS), 0)
    chinese, words = 0, []
    for run in _SCRIPTS.finditer(text[:_LANGUAGE_SAMPLE]):
        script, found = str(run.lastgroup), run.group()
        if script == "latin":
            words.append(found.lower().replace("’", "'"))
        else:
            counts[script] += len(found)
            if script == "han":
                chinese += sum(character in _CHINESE_FUNCTION for character in found)
    if counts["kana"] and counts["kana"] * 5 >= counts["han"]:
        east_asian, asian_weight = "ja", (counts["kana"] + counts["han"]) / 2
    elif counts["hangul"] > counts["han"]:
        east_asian, asian_weight = "ko", counts["hangul"] / 2
    else:
        # two characters make a word; one function character shows that the sentence itself is Chinese
        east_asian, asian_weight = "zh", counts["han"] / 2 + 3 * chinese
    other = max(_OTHER_SCRIPTS, key=counts.__getitem__)
    hits = {code: sum(word in hints for word in words) for code, hints in FUNCTION_WORDS_OF.items()}
    latin = max(hits, key=hits.__getitem__)  # English comes first, and so wins ties
    latin_weight = len(words) + max(hits.values())
    if asian_weight and (asian_weight >= latin_weight or (not hits[latin] and len(words) < 4)):
        return east_asian
    if counts[other] > 4 * len(words):
        return other
    return latin if hits[latin] > 1 else "en"


# --- sentences --------------------------------------------------------------------------------------------------------

_ATOMS = regex.compile(
    rf"https?://[^\s{CJK}，。；！？）”」]+|www\.[^\s{CJK}，。；！？）”」]+|[\w.+\-]{{1,64}}@[\w\-]{{1,64}}(?:\.[\w\-]{{1,64}})+"
)
_STOP = regex.compile(r"[。．！？；!?…]+|\.+|;|[\r\n\u2028\u2029]+")
_CLOSERS = "\"'”’」』）)]】》"
_CLOSING = regex.compile(rf"[{regex.escape(_CLOSERS)}]*")
_LAST_WORD = regex.compile(r"[\p{L}\p{N}.]{1,24}\Z")
_NEXT_WORD = regex.compile(r"\s*[\"'“‘「『（(\[【《]*([\p{L}\p{N}'’]{0,24})")
_CJK_CHARACTER = regex.compile(rf"[{CJK}]")
_DOTTED = regex.compile(r"(?:\p{L}\.)+\p{L}")


_NEVER_LAST = words_of("mr mrs ms dr prof st sr jr rev gen capt lt col vs e.g i.e eg ie cf approx est dept z.b bzw ca")
_BEFORE_NUMBERS = words_of("no nos nr vol fig sec ch p pp art")
_SELDOM_LAST = words_of("etc inc ltd co corp am pm ph.d m.sc jan feb mar apr jun jul aug sep sept oct nov dec")
_STARTERS = words_of(
    "i i'm i've he she it it's we they you my his her our their your the a an this that these those there and but so also please "
    "what when where who how why if in on at then however yes no"
)


def _ends_here(text: str, sentence_start: int, stop: "regex.Match[str]") -> bool:
    """Whether the marks of `stop` end the sentence that began at `sentence_start`."""
    marks, start, end = stop.group(), stop.start(), stop.end()
    following = text[end : end + 1]
    # a full stop in the middle of 3.5, example.org, file.txt, yes/no?x=1 has no space, quote or CJK character after it
    glued = (
        bool(following)
        and not following.isspace()
        and not _CJK_CHARACTER.match(following)
        and following not in _CLOSERS
    )
    if marks == ";":
        return bool(start and _CJK_CHARACTER.match(text[start - 1]))
    if not marks.strip("…") or (marks[0] == "." and len(marks) > 1):
        return _opens_sentence(text, end)
    if marks[0] != ".":
        return not (marks.isascii() and glued)
    if glued:
        return False
    before = _LAST_WORD.search(text, max(sentence_start, start - 24), start)
    word = before.group().lower() if before else ""
    if word.isdigit() and len(word) <= 2 and not text[sentence_start : start - len(word)].strip():
        return False  # "1. Buy milk"
    next_match = _NEXT_WORD.match(text, end)
    next_word = next_match.group(1) if next_match else ""
    if word in _NEVER_LAST:
        return False
    if word in _BEFORE_NUMBERS and next_word[:1].isdigit():
        return False
    if word in _SELDOM_LAST or (len(word) == 1 and word.isalpha()) or _DOTTED.fullmatch(word):
        starts = next_word[:1].isupper() and next_word.lower().replace("’", "'") in _STARTERS
        return starts or not next_word
    return True


def _opens_sentence(text: str, position: int) -> bool:
    """After an ellipsis: a capital or a CJK character after white space starts anew; "well... maybe" goes on."""
    following = _NEXT_WORD.match(text, position)
    word = following.group(1) if following else ""
    if not word:
        return True
    return word[0].isupper() and text[position].isspace()


def sentences(text: str) -> list[str]:
    """The sentences of `text` in order, stripped, none empty. Ends: 。！？； . ! ? and line breaks, with the quotes that close there.

    Not ends: decimals, abbreviations, initials, addresses of pages and mail, numbers of a list, an ellipsis in mid-sentence.
    """
    atoms = [(m.start(), m.start() + len(m.group().rstrip(".,!?;:'\""))) for m in _ATOMS.finditer(text)]
    cuts, atom = [0], 0
    for stop in _STOP.finditer(text):
        while atom < len(atoms) and atoms[atom][1] <= stop.start():
            atom += 1
        if atom < len(atoms) and atoms[atom][0] <= stop.start():
            continue
        if stop.group()[0] in "\r\n\u2028\u2029":
            cuts.append(stop.end())
        elif _ends_here(text, cuts[-1], stop):
            closing = _CLOSING.match(text, stop.end())
            cuts.append(closing.end() if closing else stop.end())
    cuts.append(len(text))
    pieces = [text[start:end].strip() for start, end in pairwise(cuts)]
    return [piece for piece in pieces if piece]
