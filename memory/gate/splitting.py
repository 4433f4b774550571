# ruff: noqa: E501 - a pattern is read as one line
"""Compound sentences into clauses that stand alone: the subject that a clause borrows from the one before is put back."""

import re
from dataclasses import dataclass

_I = re.IGNORECASE


@dataclass(frozen=True, slots=True)
class Clause:
    """`text` has its subject; `said` is how the user wrote it; `borrowed` where the subject came from the clause before."""

    text: str
    said: str
    borrowed: bool = False


# --- English ----------------------------------------------------------------------------------------------------------

_VERBS = (
    r"(?:live|lived|work|love|hate|like|prefer|enjoy|dislike|speak|drive|study|teach|own|play|drink|eat|moved|switched|use|adore|detest|am|have (?:a|an|two|three|four|one|no|been|moved|switched|asthma|diabetes|\d+)|"
    r"cannot|can't|could not|do not|never|always|usually|no longer|also (?:love|like|hate|enjoy|prefer|work|live|speak|play|have)|really (?:love|like|hate|enjoy))"
)
_STATES = r"(?:(?:severely |highly |originally )?(?:allergic to|from [A-Z]|based in|married|single|divorced|retired|vegetarian|vegan|diabetic|left-handed|fluent in|lactose|coeliac|celiac|passionate about|fond of|into (?!the|a )|not a fan of|\d{2} years old))"
_SUBJECTS = r"(?:(?:also |now |currently |then |please )?(?:I|my|we|our|you|he|she|they|it is|that is|this is|there is|please|never|always|make sure|do not ever|his|her|everyone calls|people call|my friends call|stop \w+ing)\b)"
_ASKING = r"(?:what|where|how|who|why|which|can you|could you|do you|is there|are there|is it|is that|should I|can I|any (?:ideas|suggestions|tips|recommendations)|recommend|suggest|tell me|help me|find me|book me|give me|show me)\b"
_BOUNDARY = re.compile(
    rf"\s*(?:[,;]|\s[-–—]+\s|[–—]|\.\.\.|…)\s*(?:(?:and|but|so|or|also|plus|because|since|although|though|while|yet|as|then|if)\s+)*(?={_SUBJECTS}|(?!like\b){_VERBS}\b|{_STATES}|{_ASKING})"
    rf"|\s+(?:(?:and|but|plus|because|since|although|though|while|yet|so)\s+(?:also |then |now )?)(?={_SUBJECTS}|{_VERBS}\b|{_STATES})|\s+but (?=(?:not|now)\s)|(?<=\w)\s*;\s*",
    _I,
)
_OWN_SUBJECT = re.compile(r"^(?:also |now |currently |then |please )?(?:I|my|we|our)\b", _I)
_ANY_SUBJECT = re.compile(rf"^(?:{_SUBJECTS}|{_ASKING})", _I)
_PREDICATE = re.compile(rf"^{_VERBS}\b", _I)
_STATE = re.compile(rf"^{_STATES}", _I)
_IMPERATIVE_BEFORE = re.compile(
    r"^(?:please |also )*(?:never|always|do not|make sure|stop|avoid|use|keep|answer|reply|call)\b", _I
)
_ELLIPTIC = re.compile(r"^not (?!(?:only|just|even|to|that|really|sure)\b)(?P<x>\S.*)$", _I)
_POSITIVE = re.compile(
    r"^(?P<head>i (?:really |also |only )?(?P<verb>like|love|enjoy|eat|drink|speak|want|use|play)) .+", _I
)
_SHARED_SUBJECT = re.compile(
    r"^(?:my (?:wife|husband|partner|girlfriend|boyfriend|family|kids|son|daughter|sister|brother|friend)(?: and)?) and i\b",
    _I,
)


def english_clauses(statement: str) -> list[Clause]:
    """Clauses of a canonical English statement, in order."""
    statement = _SHARED_SUBJECT.sub("we", statement)
    pieces = [piece.strip(" ,;") for piece in _BOUNDARY.split(statement)]
    clauses: list[Clause] = []
    for piece in pieces:
        if not piece:
            continue
        before = clauses[-1].text if clauses else ""
        elliptic, positive = _ELLIPTIC.match(piece), _POSITIVE.match(before)
        if elliptic and positive:
            text = f"I do not {positive['verb']} {elliptic['x']}"
        elif not before or _IMPERATIVE_BEFORE.match(before):
            text = piece
        elif _STATE.match(piece) and re.match(r"^i am\b", before, _I):
            text = "I am " + piece
        elif _PREDICATE.match(piece) and not _ANY_SUBJECT.match(piece):
            subject = (
                "I"
                if re.match(r"^(?:now |also )?i\b", before, _I)
                else "we"
                if before.lower().startswith("we ")
                else ""
            )
            text = f"{subject} {piece}".strip()
        elif (
            re.match(r"(?:always|never)\b", piece, _I)
            and re.match(r"^i (?:am|have|like|love|live|work)\b", before, _I)
            and not re.search(r"\b(?:me|my|us)\b", piece, _I)
        ):
            text = "I " + piece
        else:
            text = piece
        clauses.append(Clause(text, piece, text != piece))
    return clauses


# --- Chinese ----------------------------------------------------------------------------------------------------------

_ZH_PREDICATES = (
    r"(?:我|本人|咱|俺|他|她|你|不喜欢|不爱|不吃|不喝|不能|不要|不太喜欢|喜欢|讨厌|偏爱|更喜欢|最喜欢|最爱|平时|住在|家住|对.{1,12}过敏|今年|在.{1,15}(?:工作|上班|读书|上学)|请|别|千万|以后|现在|已经|"
    r"帮|养了|有一|有两|叫|是一|从不|从来不|只吃|只喝|吃素|单身|已婚)"
)
_ZH_BOUNDARY = re.compile(
    rf"(?:[，；;]|,(?!\d))+\s*|\s*(?:——|--|…+)\s*|(?<=[\u4e00-\u9fff])\s+(?={_ZH_PREDICATES})|(?<=[\u4e00-\u9fff\w])(?=(?:但是|但|不过|可是|而且|并且|然而|另外|同时)(?:{_ZH_PREDICATES}|也|还|都|更|最|很))"
)
_ZH_LEAD = re.compile(
    r"^(?:但是|但|不过|可是|可|而且|并且|然而|另外|此外|同时|还有|所以|因此|因为|由于|然后|于是|只是|那么|那|以及|再有|既然|虽然|尽管|加上|再加上|毕竟|反正|其次|首先)+(?=.)[，,]?"
)
_ZH_SUBJECT = re.compile(
    r"^(?:现在|目前|平时|平常|以前|其实|最近|周末|一般|通常|早上|晚上|每天)?(?:我们|我|本人|咱们|咱|俺|他们|她们|他|她|它|你们|你|您|这|那|家里|大家|用户|别人|有人)"
)
_ZH_RELATIVE = re.compile(
    r"^我(?:的|家)?(?P<who>(?:大|小|二)?(?:女儿|儿子|孩子|闺女|老婆|妻子|太太|媳妇|爱人|老公|丈夫|先生|男朋友|女朋友|对象|猫|狗|宝宝|妈妈|爸爸|妈|爸|姐姐|妹妹|哥哥|弟弟|爷爷|奶奶|外公|外婆|朋友|同事|同学|领导|老板|室友|姐|妹|哥|弟))"
)
_ZH_OTHERS = re.compile(
    r"^(?!用户)"
    r"^(?:他|她|它|他们|她们|小[\u4e00-\u9fff]|老[\u4e00-\u9fff](?!家|师)|(?:(?!我)[\u4e00-\u9fff]){2,3}(?:是|喜欢|住在|爱吃|讨厌))"
)
_ZH_NOT = re.compile(r"不(?:是|叫|住)[^，,]{1,30}$")
_ZH_BUT = re.compile(r"^(?:我|而|应该){0,2}(?:是|叫|住)(?!的)")
_ZH_BUT_NOT = re.compile(r"^(?:而)?不(?:是|叫)(?!很|太|特别)[^，,]{1,30}$")
_ZH_IS = re.compile(r"是|叫|住|在|[：:]")
_ZH_PARTIAL = re.compile(r"^(?:除了|相比|比起|跟|和|关于|至于|对于|说到|论|作为|为了|在|从|当|每次|每逢|一到).{0,16}$")


def _contrasts_joined(pieces: list[str]) -> list[str]:
    """ "不是A，是B" and "是A，不是B" say one thing."""
    joined: list[str] = []
    for piece in pieces:
        if joined and (
            (_ZH_NOT.search(joined[-1]) and _ZH_BUT.match(piece))
            or (_ZH_BUT_NOT.match(piece) and _ZH_IS.search(joined[-1]))
        ):
            joined[-1] += "，" + piece
        else:
            joined.append(piece)
    return joined


def chinese_clauses(statement: str) -> list[Clause]:
    """Clauses of a Chinese statement, in order. A clause without a subject borrows that of the clause before."""
    pieces = _contrasts_joined([piece.strip() for piece in _ZH_BOUNDARY.split(statement)])
    clauses: list[Clause] = []
    owner = ""  # whose predicate a bare clause continues: "" the user, otherwise a relative or somebody else
    pending = ""
    for said in pieces:
        piece = _ZH_LEAD.sub("", said)
        if not piece:
            continue
        if pending:
            piece, said, pending = f"{pending}，{piece}", f"{pending}，{said}", ""
        elif _ZH_PARTIAL.match(piece) and not re.search(r"(?:工作|上班|读书|上学|过敏|住|喜欢)", piece):
            pending = piece
            continue
        relative = _ZH_RELATIVE.match(piece)
        if relative:
            owner = "我" + relative["who"]
            clauses.append(Clause(piece, said))
        elif _ZH_SUBJECT.match(piece):
            owner = "他" if _ZH_OTHERS.match(piece) else ""
            clauses.append(Clause(piece, said))
        elif owner and not re.match(r"^(?:请|别|不要|千万|以后|记住|帮)", piece):
            clauses.append(Clause(owner + piece, said, borrowed=True))
        else:
            if not clauses and _ZH_OTHERS.match(piece):
                owner = "他"
            clauses.append(Clause(piece, said))
    if pending:
        clauses.append(Clause(pending, pending))
    return clauses
