# ruff: noqa: E501 - a pattern is read as one line
"""What stands around an English statement: fillers, "remember that…", "from now on…", "sorry, I meant…"."""

import re

from memory.gate.frames import Frame

_I = re.IGNORECASE
_FILLER = re.compile(
    r"^(?:well|so|ok|okay|oh|hey|hi|hello|hi there|hey there|btw|by the way|fyi|for your information|honestly|frankly|to be honest|tbh|look|listen|you know|as you know|"
    r"also|and|but|plus|anyway|yes|yeah|yep|right|um+|uh+|hmm+|in general|as for me|for me|personally|just so you know|just fyi|i think(?: that)?|i should (?:mention|add)(?: that)?|"
    r"i guess|i must say|i have to say|first|second|lastly|finally|one more thing|another thing|oh and|since|because|as|given that|although|though|while)\b[,:!\-–— ]*(?=\w)",
    _I,
)
_AS_WORDS = re.compile(r"^(?:as|since|while|right|second|first)\b", _I)
_TRAILING = re.compile(
    r"[,\s]*(?:\b(?:please|by the way|btw|fyi|thanks|thank you|thx|lol|haha|though|just so you know|ok|okay|you know|too|as well|tbh|to be honest|for your information|cheers)|[\U0001F000-\U0001FAFF\u2600-\u27BF\ufe0f\u200d]+|[!.…,;:~])\s*$",
    _I,
)
_EXPLICIT = re.compile(
    r"^(?:please |kindly |pls |(?:can|could|will|would) you |i (?:want|need|would like) you to |you should |you must |always |just )*"
    r"(?:(?:remember|keep in mind|bear in mind|take note|make a note|do not (?:ever )?forget|never forget|memori[sz]e|note(?: down)?|write down|jot down|for the record|for future reference|add to (?:your )?memory)\b)"
    r"(?: (?:that|this|down|of this|the fact that|the following|for (?:later|next time|the future|future reference)|about me|please|,))*\s*[,:\-–—]*\s*(?=\S)",
    _I,
)
_STANDING = re.compile(
    r"^(?:please )?(?:from now on(?:wards)?|going forward|moving forward|from (?:today|here)(?: on(?:wards)?)?(?: out)?|in (?:the )?future|by default|as a default|henceforth|"
    r"for (?:all )?(?:my )?future (?:\w+)|for next time|from this point on)[,:\s]+(?=\S)",
    _I,
)
_STANDING_TAIL = re.compile(
    r"[,\s]+(?:from now on(?:wards)?|going forward|moving forward|in (?:the )?future|by default|henceforth)$", _I
)
_CORRECTION = re.compile(
    r"^(?:(?:no|sorry|oops|wait|hang on|hold on|my mistake|my bad|ah|whoops|apologies)[,!\-–— ]+)*"
    r"(?:(?:actually|correction|to correct (?:myself|that)|let me correct (?:that|myself)|i (?:meant|mean|misspoke|should have said)(?: to say)?(?: that)?|that is (?:wrong|not right|incorrect|not correct|outdated)|"
    r"that was wrong|i made a mistake|i was wrong|i got that wrong|small correction|update(?=[:,]))\b[,:;.!\-–— ]*)(?=\S)",
    _I,
)
_NO = re.compile(r"^(?:no|sorry|oops|wait|whoops|my mistake)[,!]+\s*(?=(?:it is |i |my |we )\S)", _I)
_TO_DO = re.compile(r"^to (?!always\b|never\b)", _I)


def _opening(said: str) -> str:
    words = said.lower().removeprefix("please ").strip(" ,:")
    return (
        "By default"
        if "default" in words
        else "In future"
        if words in ("in future", "in the future")
        else "From now on"
    )


def unframe(sentence: str) -> Frame:
    """The statement without what stands around it, and what that said. `sentence` is canonical."""
    explicit = standing = corrects = task = False
    opening = ""
    for _ in range(6):
        before = sentence
        for pattern, flag in (
            (_CORRECTION, "corrects"),
            (_NO, "corrects"),
            (_EXPLICIT, "explicit"),
            (_STANDING, "standing"),
        ):
            match = pattern.match(sentence)
            if match:
                sentence = sentence[match.end() :]
                opening = opening or (_opening(match.group()) if flag == "standing" else "")
                corrects, explicit, standing = (
                    corrects or flag == "corrects",
                    explicit or flag == "explicit",
                    standing or flag == "standing",
                )
        filler = _FILLER.match(sentence)
        if filler and (not _AS_WORDS.match(sentence) or re.match(r"(?:i|my|we|our)\b", sentence[filler.end() :], _I)):
            sentence = sentence[filler.end() :]
        if sentence == before:
            break
    if explicit and sentence.endswith("?"):
        sentence = sentence[:-1]
    for _ in range(6):
        shorter = _TRAILING.sub("", sentence) if not sentence.endswith("?") else sentence
        tail = _STANDING_TAIL.search(shorter)
        if tail:
            shorter, standing, opening = shorter[: tail.start()], True, opening or _opening(tail.group())
        if shorter == sentence or not shorter:
            break
        sentence = shorter
    if explicit and _TO_DO.match(sentence):
        task = True
    if explicit:
        sentence = re.sub(r"^to (?=(?:always|never)\b)", "", sentence, flags=_I)
    return Frame(sentence, explicit=explicit, standing=standing, corrects=corrects, task=task, opening=opening)
