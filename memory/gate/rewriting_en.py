"""English clauses in a canonical wording, and from the first person into the third."""

import re

from memory.text import words_of

_CONTRACTIONS = [
    (re.compile(pattern, re.IGNORECASE), full)
    for pattern, full in (
        (r"\bi'?m\b(?!-)", "I am"),
        (r"\bi(?:'ve|ve)\b", "I have"),
        (r"\bi'd\b", "I would"),
        (r"\bi'll\b", "I will"),
        (r"\bcan(?:'t|not|t)\b", "cannot"),
        (r"\bwon't\b", "will not"),
        (r"\b(do|does|did|is|are|was|were|have|has|had|should|would|could|must|need)n'?t\b", r"\1 not"),
        (r"\b(we|you|they)'re\b", r"\1 are"),
        (r"\b(we|you|they)'ve\b", r"\1 have"),
        (r"\blet's\b", "let us"),
        (r"\b(it|that|what|who|where|how|there|here|name|he|she)'s\b", r"\1 is"),
        (r"\bi\b(?=\s)", "I"),
    )
]

_ADVERBS = words_of(
    "really also still just always never usually often sometimes mostly now currently quite rather absolutely "
    "actually personally generally normally typically definitely especially particularly truly simply totally much "
    "only even already recently finally mainly sadly occasionally regularly rarely seldom almost strictly strongly "
    "kinda slightly deeply largely both all"
)
_FIXED = words_of(
    "can cannot could will would should must may might had did was went got took made moved became had grew bought "
    "sold quit left broke lost found gave set put cut ran wrote drove ate drank began won built knew taught thought "
    "felt kept met paid said saw sent slept spoke spent stood swam understood came brought chose forgot used ought "
    "needn't"
)
_CONJUGATED_AFTER_AND = words_of(
    "work live love hate like enjoy drink eat play run speak use study teach drive own prefer travel read write "
    "sing cook"
)
_NUMBERED = words_of("book part type chapter volume phase war section grade class level act world charles elizabeth")
_TOKEN = re.compile(r"\s+|[^\s]+")
_WORD = re.compile(r"^([^\w']*)([\w'\-]*)(.*)$", re.DOTALL)
_LATER = {
    "i": "they", "me": "them", "my": "their", "mine": "theirs", "myself": "themselves",
    "we": "they", "us": "them", "our": "their", "ours": "theirs", "ourselves": "themselves",
    "you": "the assistant", "your": "the assistant's", "yourself": "itself",
}  # fmt: skip
_FIRST = _LATER | {
    "i": "the user", "we": "the user", "me": "the user", "us": "the user", "my": "the user's", "our": "the user's",
    "mine": "the user's",
}  # fmt: skip


def canonical(text: str) -> str:
    """Contractions written out ("I'm" -> "I am", "don't" -> "do not", "dont" too), so that one wording reaches the rules."""
    for pattern, full in _CONTRACTIONS:
        text = pattern.sub(full, text)
    return text


def third_singular(verb: str) -> str:
    """ "like" -> "likes", "am" -> "is"; past tenses and modals stay."""
    lower = verb.lower()
    if lower in ("am", "are"):
        return "is"
    if lower == "were":
        return "was"
    if lower in ("have", "do", "go"):
        return {"have": "has", "do": "does", "go": "goes"}[lower]
    if lower in _FIXED or (lower.endswith("ed") and lower not in ("need", "feed", "breed", "speed")):
        return verb
    if lower.endswith(("s", "x", "z", "ch", "sh")):
        return verb + "es"
    if lower.endswith("y") and lower[-2:-1] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + "s"


def _is_adverb(word: str) -> bool:
    return word in _ADVERBS or (word.endswith("ly") and word not in ("fly", "rely", "reply", "apply", "supply"))


def third_person(clause: str, *, mentioned: bool = False) -> str:
    """The clause with the user as "the user", then "they"; the verb agrees. Names, numbers and negations stay as they are.

    With `mentioned`, the user was already named in a frame around the clause.
    """
    out: list[str] = []
    previous = ""
    singular_verb = plural_verb = coordinate = after_and = False
    for token in _TOKEN.findall(clause):
        if token.isspace():
            out.append(" ")
            continue
        match = _WORD.match(token)
        before, word, after = match.groups() if match else ("", token, "")
        lower = word.lower()
        numeral = word == "I" and previous in _NUMBERED
        previous = lower
        if lower in _LATER and not numeral and word != "US":
            table = _LATER if mentioned else _FIRST
            subject = lower in ("i", "we")
            singular_verb, plural_verb = subject and not mentioned, subject and mentioned
            coordinate = coordinate or singular_verb
            mentioned = mentioned or lower not in ("you", "your", "yourself")
            word = table[lower]
        elif (singular_verb or plural_verb) and lower in ("no", "longer"):
            pass  # "no longer live"
        elif singular_verb and word and not _is_adverb(lower):
            word, singular_verb = third_singular(word), False
        elif plural_verb and word and not _is_adverb(lower):
            word, plural_verb = {"am": "are", "was": "were"}.get(lower, word), False
        elif coordinate and after_and and lower in _CONJUGATED_AFTER_AND:
            word = third_singular(word)
        after_and = lower in ("and", "but", "or") or (after_and and _is_adverb(lower))
        out.append(before + word + after)
    return "".join(out).strip()


def sentence(text: str) -> str:
    """With a capital first and a full stop last."""
    text = text.strip().rstrip(".!;,:… ").rstrip()
    return text[:1].upper() + text[1:] + "."


_THE_USER = re.compile(r"^(?:the )?user(?P<own>'s)?\s+", re.IGNORECASE)


def first_person(statement: str) -> str | None:
    """ "The user likes tea" -> "I like tea", so that one set of rules reads both; None if it does not begin with the user."""
    match = _THE_USER.match(statement)
    if not match:
        return None
    rest = statement[match.end() :]
    if match["own"]:
        return "my " + rest
    words = rest.split(" ")
    for index, word in enumerate(words):
        if not _is_adverb(word.lower()) and word.lower() not in ("no", "longer"):
            words[index] = base_form(word)
            break
    for index, word in enumerate(words[1:], 1):
        base = base_form(word)
        if words[index - 1].lower() in ("and", "but") and (
            base.lower() in _CONJUGATED_AFTER_AND or base in ("am", "have", "do")
        ):
            words[index] = base
    return "I " + " ".join("my" if word.lower() == "their" else word for word in words)


def base_form(verb: str) -> str:
    """ "likes" -> "like", "is" -> "am": the inverse of `third_singular`."""
    lower = verb.lower()
    if lower in ("is", "has", "does", "goes", "was"):
        return {"is": "am", "has": "have", "does": "do", "goes": "go", "was": "was"}[lower]
    if lower.endswith("ies") and len(lower) > 4:
        return verb[:-3] + "y"
    if lower.endswith(("shes", "ches", "xes", "sses", "zzes")):
        return verb[:-2]
    return verb[:-1] if lower.endswith("s") and not lower.endswith("ss") else verb
