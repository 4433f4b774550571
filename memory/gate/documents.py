# ruff: noqa: E501 - a pattern is read as one line
"""What a user's turn holds that is not the user talking: code, logs, pasted documents, our own memory block come back."""

import re
from collections.abc import Sequence

from memory.text import fingerprint
from memory.verdict import Reason

_FENCE = re.compile(r"^\s*(?:```|~~~)")
_MEMORY_OPEN = re.compile(
    r"<\s*/?\s*(?:memor(?:y|ies)|recalled|reference_data|context|user_memor\w*)\b|^\s*\[(?:memory|memories|记忆)\b",
    re.IGNORECASE,
)
_MEMORY_CLOSE = re.compile(
    r"<\s*/\s*(?:memor(?:y|ies)|recalled|reference_data|context|user_memor\w*)\s*>|^\s*\[/(?:memory|memories|记忆)\]",
    re.IGNORECASE,
)
_PASTE_EN = re.compile(
    r"^(?:please |can you |could you |would you |help me )*(?:translate|summari[sz]e|proofread|rewrite|rephrase|paraphrase|edit|correct|analy[sz]e|explain|review|shorten|improve|classify|extract|polish|format|write|continue|fix|check|read|compare|convert|parse|respond to|reply to|answer)\b[^.!?\n]*[:：]\s*",
    re.IGNORECASE,
)
_PASTE_ZH = re.compile(
    r"^(?:请|麻烦|帮我|帮忙|你)*(?:把|将)?[^。！？\n：:]{0,20}(?:翻译|总结|概括|润色|改写|校对|解释|分析|续写|修改|提取|归纳|写|缩写|扩写|检查|回复)[^。！？\n：:]{0,24}[：:]\s*"
)
_LABELLED = re.compile(r"^(?:user|assistant|system|human|ai|bot|用户|助手|客服|系统|问|答|q|a)\s*[:：]", re.IGNORECASE)
_CODE = re.compile(
    r"^\s*(?:def |class |import |from \w+ import|return\b.*[;(]|const |let \w+ =|var \w+ =|function\b|public |private |#include|#!/|SELECT .+ FROM|INSERT INTO|UPDATE \w+ SET|CREATE TABLE|\$ |>>> |sudo |pip install|npm |git \w+|curl |docker |kubectl |<\w+[ >/]|</|\{|\}|\[\{|@\w+\(|Traceback|File \"|\s*at [\w.$]+\(|Exception|\w+Error:|//|/\*)"
    r"|=>|==|!=|\);\s*$|;\s*$(?<=[)}\"'\w];)|\w+\([^)]{0,80}\)\s*[;{]?$(?<![\u4e00-\u9fff]\))|^\s*\w+\s*=\s*[\[\"'{(]|^[\w.\-]+:\s*[{\[]|\b\w+\.\w+\([^)]*\)|\"\w+\":\s",
)
_LOG = re.compile(
    r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}|\b(?:ERROR|WARN|WARNING|INFO|DEBUG|FATAL|TRACE)\b[\s:\]]|^\[\d|\b0x[0-9a-f]{4,}|HTTP/\d|stack ?trace|exit code \d",
    re.IGNORECASE,
)
_LEVEL = re.compile(r"\b(?:ERROR|WARN|WARNING|INFO|DEBUG|FATAL|TRACE)\b")
_URL_ONLY = re.compile(r"^\s*(?:https?://|www\.)\S+\s*$", re.IGNORECASE)
_WORDS = re.compile(r"[^\W\d_]", re.UNICODE)
_LETTERS_AND_DIGITS = re.compile(r"\w")
_SECRET = re.compile(
    r"\b(?:passwords?|passcodes?|passphrase|pin(?: code| number)?|cvv|cvc|api[ _-]?keys?|secret[ _-]?keys?|access tokens?|private keys?|seed phrase|recovery (?:code|phrase)|social security(?: number)?|ssn|card number|credit card number)\b\s*(?:\w+ ){0,5}?(?:is|are|:|=|：)\s*\S"
    r"|(?:密码|口令|验证码|支付密码|CVV|cvv|安全码|密钥|私钥|助记词|身份证号码?|银行卡号|信用卡号)(?:\S{0,6})?(?:是|为|：|:|=)\s*[A-Za-z0-9*#@!]|\b(?:sk|pk|ghp|xox[bp])[-_][A-Za-z0-9_\-]{12,}|\b(?:\d[ -]?){15,18}\d\b",
    re.IGNORECASE,
)
_OURS = re.compile(
    r"^(?:[-*•\d.\s]*)\[(?:active|outdated|pending)\b|^reference data attached by the system|^notes about the user\s*:|^以下是系统附上的参考资料|^关于用户的记录\s*：|"
    r"^(?:[-*•\d.\s]*)(?:\[[^\]]{0,40}\]\s*)?[\"“]?(?:from now on, )?(?:the user(?:'s)?\b|用户(?!名|体验|协议|手册|反馈)|lesson learned by the user|(?:用户)?总结的教训)",
    re.IGNORECASE,
)
_FIRST_PERSON = re.compile(r"\b(?:i|my|me|i'm|we|our)\b|我|咱|俺|本人", re.IGNORECASE)
_GRAM = re.compile(r"[a-z0-9']+|[\u3400-\u9fff]")
_DECIDING = re.compile(r"\d+|\b(?:not|no|never|cannot|don't|doesn't)\b|[不没别无]")
_MANY_LINES = 40
_SAME = 0.8


def blocks(text: str) -> list[tuple[str, Reason | None]]:
    """The turn cut where talk ends and something else begins, in order; the reason is there for what is not talk. Linear."""
    found: list[tuple[str, Reason | None]] = []
    lines: list[str] = []
    state: Reason | None = None

    def close(reason: Reason | None) -> None:
        if any(line.strip() for line in lines):
            found.append(("\n".join(lines).strip(), reason))
        lines.clear()

    raw = text.splitlines()
    labelled = sum(bool(_LABELLED.match(line)) for line in raw) >= 2
    for index, line in enumerate(raw):
        if _FENCE.match(line):
            if state is Reason.NOT_TALK:
                close(state)
                state = None
            elif state is None:
                close(None)
                state = Reason.NOT_TALK
            continue
        if state is None and _MEMORY_OPEN.search(line):
            close(None)
            state = Reason.RECALLED
        if state is None:
            paste = _PASTE_EN.match(line[:300]) or _PASTE_ZH.match(line[:300])
            rest = "\n".join([line[paste.end() :], *raw[index + 1 :]]).strip() if paste else ""
            if paste and rest:
                close(None)
                return [*found, (line[: paste.end()].strip(), Reason.REQUEST), (rest, Reason.QUOTATION)]
        lines.append(line)
        if state is Reason.RECALLED and _MEMORY_CLOSE.search(line):
            close(state)
            state = None
    close(state)
    if labelled:
        return [(block, reason or Reason.QUOTATION) for block, reason in found]
    if len(raw) > _MANY_LINES:
        return [(block, reason or Reason.NOT_TALK) for block, reason in found]
    return found


def not_talk(sentence: str) -> Reason | None:
    """NOT_TALK for code, logs, data and bare addresses; SMALL_TALK for marks and emoji alone; None for words."""
    if not _WORDS.search(sentence):
        return Reason.NOT_TALK if _LETTERS_AND_DIGITS.search(sentence) else Reason.SMALL_TALK
    if _URL_ONLY.match(sentence) or _CODE.search(sentence) or (_LOG.search(sentence) and _LEVEL.search(sentence)):
        return Reason.NOT_TALK
    marks = sum(character in "{}[]<>=|\\/;$#*_`" for character in sentence)
    return Reason.NOT_TALK if marks * 6 > len(sentence) + 6 else None


def holds_secret(sentence: str) -> bool:
    return bool(_SECRET.search(sentence))


def _grams(text: str) -> set[str]:
    tokens = _GRAM.findall(text.casefold())
    return {
        a + b if len(a) == len(b) == 1 and not a.isascii() else a
        for a, b in zip(tokens, [*tokens[1:], "."][: len(tokens)], strict=True)
    }


class Recalled:
    """What the prompt of this turn held of the user's memories: P1, it must not be learnt a second time."""

    def __init__(self, contents: Sequence[str], assistant: str | None) -> None:
        self._contents = contents
        self._prints = {fingerprint(content) for content in contents}
        self._grams = [(_grams(content), sorted(_DECIDING.findall(content.casefold()))) for content in contents]
        self._assistant = " ".join((assistant or "")[:20_000].split()).casefold()

    def covers(self, sentence: str) -> bool:
        """Our own wording, one of these contents, or nearly: the same words, numbers and negations, and no first person."""
        if _OURS.match(sentence):
            return True
        if not self._prints:
            return False
        if fingerprint(sentence) in self._prints:
            return True
        if _FIRST_PERSON.search(sentence):
            return False  # the user says it anew: that confirms an entry (P9)
        grams, deciding = _grams(sentence), sorted(_DECIDING.findall(sentence.casefold()))
        return any(
            deciding == theirs and len(grams & known) >= _SAME * len(grams | known) and len(grams) > 2
            for known, theirs in self._grams
        )

    def said_by_assistant(self, sentence: str) -> bool:
        """The user pasted back a sentence of the assistant's last answer (P3)."""
        flat = " ".join(sentence.split()).casefold()
        return len(flat) >= (8 if re.search(r"[\u4e00-\u9fff]", flat) else 16) and flat in self._assistant

    def favourite_category(self) -> str | None:
        """The one category among the recalled favourites, for "my current favourite is…" (P7); None if not exactly one."""
        found = {
            match.group(1).strip()
            for content in self._contents
            for match in [re.search(r"favou?rite ([\w ]{2,30}?) (?:is|are)\b|最(?:喜欢|爱)的([^是]{1,10})是", content)]
            if match and match.group(1)
        } | {
            match.group(1).strip()
            for content in self._contents
            for match in [re.search(r"最(?:喜欢|爱)的([^是]{1,10})是", content)]
            if match
        }
        return found.pop() if len(found) == 1 else None
