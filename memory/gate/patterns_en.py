# ruff: noqa: E501 - a pattern is read as one line
"""English rules: tastes, constraints, standing requests, outcomes, lessons. Clauses are canonical (contractions written out)."""

import re
from collections.abc import Callable

from memory.entry import Kind
from memory.gate import subjects
from memory.gate.found import Attribute, Found
from memory.gate.lexicon_en import ADVERBS, DISLIKES, LANGUAGES, LIKES
from memory.gate.profile_en import PROFILE_RULES
from memory.gate.rewriting_en import sentence, third_person
from memory.verdict import Reason

Build = Callable[[re.Match[str]], "tuple[Found, ...] | Reason | None"]
_I = re.IGNORECASE

_TO_ASSISTANT = re.compile(r"^(?:your|the idea|the (?:look|sound) of)\b|^(?:\S+ ){0,7}you\b", _I)
_ANSWERS = re.compile(r"^your (?:answers|replies|responses|explanations) \w+", _I)
_VAGUE = re.compile(
    r"^(?:(?:it|this|that|them|these|those|one|ones|him|her|so|both|all|everything|nothing|something|more|most|neither|any|its|their|his|her)\b(?! when| if| (?:music|food|kinds?|sorts?|vegetables|seafood|outdoors?))|"
    r"(?:where|what|how) (?:this|that|it|things)\b|to (?:say|admit|think|ask|bother|break|be|know|hear|see)\b|the (?:ones?|help|support|advice|suggestions?|feedback|first|second|third|last|latter|former|other|new|way|plan|draft|version|one|option|answer|result|design|above|following|paragraph|sentence|previous)\b)",
    _I,
)


def vague(thing: str) -> Reason | None:
    """Why `thing` names nothing outside this conversation, if so."""
    if _TO_ASSISTANT.match(thing) and not _ANSWERS.match(thing):
        return Reason.SMALL_TALK
    return Reason.INCOMPLETE if _VAGUE.match(thing) or not thing.strip(" .,!") else None


def _inside(words: str) -> str:
    """As it reads within a sentence: "Use metric units" -> "use metric units", but "PDFs must…" and "I…" stay."""
    return words[:1].lower() + words[1:] if re.match(r"[A-Z][a-z]+\b", words) else words


def told(
    clause: str, kind: Kind, reason: Reason, attribute: Attribute | None = None, *, corrects: bool = False
) -> tuple[Found, ...]:
    content = sentence(third_person(clause))
    return (Found(content, kind, reason, attribute or Attribute(), corrects=corrects),)


_CHANGED = re.compile(r"\b(?:no longer|any ?more|gone off|went off|getting into)\b|^now ", _I)
_OVER = re.compile(r"\s+(?:over|than|rather than|instead of|more than)\s+", _I)
_COMPARED = re.compile(r"\s+(?:to|over|than|rather than|instead of)\s+", _I)


def _taste(likes: bool) -> Build:
    def build(match: re.Match[str]) -> tuple[Found, ...] | Reason:
        thing = match["x"]
        why = vague(thing)
        if why:
            return why
        corrects = bool(_CHANGED.search(match.string))
        reason = Reason.CORRECTION if corrects else Reason.PREFERENCE
        compared = _COMPARED if re.search(r"\bprefer", match.string[: match.start("x")], _I) else _OVER
        attribute = subjects.taste(compared.split(thing)[0] if likes else thing, likes)
        return told(match.string, Kind.PREFERENCE, reason, attribute, corrects=corrects)

    return build


def _favourite(match: re.Match[str]) -> tuple[Found, ...] | Reason:
    thing, category = match["x"], match["category"] or ""
    if vague(thing):
        return Reason.INCOMPLETE
    now = bool(re.search(r"\b(?:current|new|now)\b", match.string, _I))
    attribute = (
        subjects.favourite(category, thing)
        if category
        else Attribute("favourite", subjects.normal_value(thing), exclusive=True)
    )
    return told(match.string, Kind.PREFERENCE, Reason.CORRECTION if now else Reason.PREFERENCE, attribute, corrects=now)


def _switch(match: re.Match[str]) -> tuple[Found, ...] | Reason:
    if vague(match["x"]):
        return Reason.INCOMPLETE
    old = match["old"]
    attribute = subjects.taste(match["x"], True)
    if old:
        attribute = Attribute(attribute.subject, attribute.value, exclusive=True, retracts=subjects.normal_value(old))
    return told(match.string, Kind.PREFERENCE, Reason.CORRECTION, attribute, corrects=True)


def _own_limit(match: re.Match[str]) -> tuple[Found, ...] | Reason:
    thing = (match["x"] or "").strip()
    if vague(thing) and thing:
        return Reason.INCOMPLETE
    if not thing and match["verb"].lower() in ("eat", "have", "consume", "tolerate", "digest", "wear", "touch", "cook"):
        return Reason.INCOMPLETE
    stopped = bool(re.search(r"\b(?:no longer|stopped|quit|gave up|given up|any ?more)\b", match.string, _I))
    food = match["verb"].lower() in (
        "eat",
        "drink",
        "have",
        "consume",
        "tolerate",
        "digest",
        "eating",
        "drinking",
        "smoke",
        "smoking",
        "cut out",
        "given up",
        "gave up",
        "sworn off",
    )
    attribute = subjects.taste(thing or match["verb"], False) if food else Attribute()
    return told(
        match.string, Kind.CONSTRAINT, Reason.CORRECTION if stopped else Reason.CONSTRAINT, attribute, corrects=stopped
    )


_ABOUT_THIS_TURN = re.compile(
    r"\b(?:this|that|it|these|those|yet|now|here|above|below|again|worry|bother|mind|get me wrong|be (?:silly|sorry|rude|mean|like|so|afraid)|know|think|understand|forget|remember|"
    r"the (?:ones?|help|support|advice|suggestions?|feedback|first|second|third|last|following|code|file|table|title|paragraph|sentence|line|section|intro|introduction|ending|order|text|list|draft))\b|^(?:stop|go|lie|panic|judge|laugh|leave|wait|ask|give up|hesitate)\b",
    _I,
)


def asked(action: str, how: str) -> str:
    """The demand as a statement: ("call me before 9", "never to") -> "The user asks never to call them before 9." """
    return sentence(f"The user asks {how} " + third_person(_inside(action), mentioned=True))


_LANGUAGE = re.compile(
    rf"\b(?:answer|reply|respond|write|speak|talk|communicate)\b.*\bin (?:\w+ )?(?P<language>{LANGUAGES})\b", _I
)
_LENGTH = re.compile(
    r"\b(?:short|shorter|brief|concise|long|longer|detailed|verbose|in depth|bullet points?|to the point)\b", _I
)
_CALL = re.compile(r"^call me (?P<name>[\w.\-' ]+)$", _I)


def _about_answers(action: str) -> Attribute:
    language = _LANGUAGE.search(action)
    if language:
        return subjects.single("answer_language", language["language"])
    call = _CALL.match(action)
    if call:
        return subjects.single("form_of_address", call["name"])
    length = _LENGTH.search(action)
    if length and re.search(r"\b(?:answers?|replies|reply|responses?|respond|be|explanations?)\b", action, _I):
        return subjects.single("answer_style", length.group())
    return Attribute()


def _demand(how: str) -> Build:
    def build(match: re.Match[str]) -> tuple[Found, ...] | Reason:
        action = match["x"].strip(" ,.!")
        if how != "to always" and _ABOUT_THIS_TURN.search(action):
            return Reason.REQUEST
        if len(action.split()) < 2:
            return Reason.INCOMPLETE
        return (Found(asked(action, how), Kind.CONSTRAINT, Reason.CONSTRAINT, _about_answers(action)),)

    return build


def _requires(match: re.Match[str]) -> tuple[Found, ...] | Reason:
    if re.match(r"(?:this|that|it|there)\b", match["x"], _I):
        return Reason.INCOMPLETE
    if re.search(r"\b(?:says?|said|wants?|told|thinks?|asks?|asked|believes?|if)\b", match["x"], _I):
        return Reason.THIRD_PARTY
    content = sentence("The user requires that " + third_person(_inside(match["x"]), mentioned=True))
    return (Found(content, Kind.CONSTRAINT, Reason.CONSTRAINT),)


def _none_of(match: re.Match[str]) -> tuple[Found, ...]:
    content = sentence("The user asks for no " + third_person(_inside(match["x"]), mentioned=True))
    return (Found(content, Kind.CONSTRAINT, Reason.CONSTRAINT),)


def _outcome(match: re.Match[str]) -> tuple[Found, ...] | Reason:
    if re.search(r"\bnot\b.*\byet\b|\bstill\b|\?$", match.string, _I):
        return Reason.TRANSIENT  # an intermediate state is no outcome
    return told(match.string, Kind.TASK_RESULT, Reason.OUTCOME)


def _fixed_it(match: re.Match[str]) -> tuple[Found, ...]:
    content = sentence("The user reports what solved the problem: " + third_person(_inside(match["x"]), mentioned=True))
    return (Found(content, Kind.TASK_RESULT, Reason.OUTCOME),)


def _lesson(match: re.Match[str]) -> tuple[Found, ...] | None:
    if len(match["x"].split()) < 3:
        return None
    return (
        Found(
            sentence("Lesson learned by the user: " + third_person(_inside(match["x"]), mentioned=True)),
            Kind.LESSON,
            Reason.OUTCOME,
        ),
    )


_NOT_TASTE = r"(?!to (?:say|admit|think|bother|ask|break|be|know|thank)\b)"
_WITH_THE = r"(?:the|our|my|your) "
_WHOLE: tuple[tuple[re.Pattern[str], Build], ...] = tuple(
    (re.compile(pattern, _I), build)
    for pattern, build in (
        (r"^(?:the |my )?lessons?(?: (?:learned|learnt))?(?: (?:is|was))?(?: that)?[,:\-–— ]+(?P<x>.+)", _lesson),
        (r"^note to self[,:\-–— ]+(?P<x>.+)", _lesson),
        (r"^(?:that|this|it|what|which) (?:(?:finally |really )?(?:fixed|solved|did|helped|worked)(?: (?:it|that|the trick|this|the problem|the issue))?)(?: (?:is|was))?\s*[:,\-–—]\s*(?:i had to |by )?(?P<x>.+)", _fixed_it),
        (r"^(?:i )?(?:finally )?(?:got it (?:working|fixed|to work|sorted)|fixed it|solved it|(?:it is |all )?(?:fixed|solved|sorted|resolved)(?: now)?|(?:problem|issue) (?:solved|fixed|sorted)|it (?:works|worked) now)\s*(?:[,:;\-–—]|by|after)\s*(?:i (?:had to )?|it turned out (?:that )?|turns out (?:that )?)?(?P<x>\S+ \S+.*)", _fixed_it),
        (r"^(?:it )?(?:turns|turned) out(?: that)? (?P<x>(?:the|my|our|i|it was|a|an) .+)", _fixed_it),
    )
)  # fmt: skip
_LEAD = r"(?:(?:now|these days|lately|recently|generally|usually|in general|(?:when it comes to|for|in terms of|at|in|on|every|during|after|before|while|since|when i|whenever i) [\w' ]{2,30}?),? )?"
_RULES: tuple[tuple[re.Pattern[str], Build], ...] = tuple(
    (re.compile(pattern, _I), build)
    for pattern, build in (
        (rf"^{_WITH_THE}(?:\w+ ){{0,3}}(?:refund|visa|loan|launch|boiler|heating|printer|wifi|internet|car|mortgage|passport|permit|payment|deployment|deploy|migration|build|release|upgrade|installation|order|package|parcel|transfer|delivery|backup|update|application|test|tests|import|export|booking|claim)s? (?:was |were |has |have |is |are |did |got |gets )*(?:been )?(?:finally |successfully |now )?"
         r"(?:not )?(?:arrived|come through|came through|received|succeeded|succeed|successful|failed|fail|went through|gone through|gone well|went well|worked|passed|completed|finished|live|done|approved|rejected|delivered|crashed|refunded|processed|timed out|fixed|repaired|solved|working again)\b.*", _outcome),
        (rf"^{_WITH_THE}(?:\w+ ){{0,2}}(?:problem|issue|bug|error|crash|cause|root cause|culprit|fix|solution|reason|failure)s? (?:was|were|turned out to be|came from|has been (?=fixed|solved|resolved)|is (?=fixed|solved|resolved|gone)|(?<=cause )is|(?<=culprit )is|(?<=fix )is)(?: (?:now|finally))? (?!(?:that|still|this|there|back|very|so|really)\b)(?P<x>.+)", _outcome),
        (r"^(?:i|we) (?:have )?(?:finally |successfully |just )*(?:fixed|solved|resolved|deployed|shipped|released|launched|migrated|repaired|completed|installed) (?P<x>(?!(?:it|this|that)\b).+(?:\b(?:by|using|with|after|successfully|to production|working|via|through)\b).*)", _outcome),
        (r"^(?P<x>(?!(?:this|that|it|which|he|she|they|you)\b)(?:\w+ing|\w+ \w+ing|an?|the) .{2,80}?\b(?:fixed|solved|resolved|cured|cleared up)\b(?! it\s*$) .+)", _outcome),
        (r"^my (?:(?:current|new|all-time|absolute|own) )*favou?rite(?: (?P<category>(?!is\b|are\b|thing\b)[\w\-' ]{1,40}?))?(?: of all time)?(?: right)?(?: now)? (?:is|are|has always been|is still|is now|would be)(?: now| still| definitely| probably)? (?P<x>.+)", _favourite),
        (r"^(?P<x>[\w'\-&. ]{1,60}?) (?:is|are) (?:still |now )?my (?:(?:current|new|all-time|absolute) )*favou?rite(?: (?P<category>[\w\-' ]{1,40}))?$", _favourite),
        (r"^the (?P<category>\w+(?: \w+)?) (?:that )?i (?:love|like|enjoy) (?:the )?(?:most|best) (?:is|are) (?P<x>.+)", _favourite),
        (r"^the (?:\w+(?: \w+)?) (?:that )?i (?:hate|dislike|like least) (?:the )?(?:most )?(?:is|are) (?P<x>.+)", _taste(False)),
        (r"^my (?:preferred|go-to|usual|default|favou?red)(?: (?P<category>[\w\-' ]{1,40}?))? (?:is|are) (?P<x>.+)", _favourite),
        (rf"^(?:now )?i {ADVERBS}(?:have )?(?:just |recently |finally |now )*(?:switched|changed|moved over|converted)(?: from (?P<old>.+?))? (?:over )?to (?P<x>.+)", _switch),
        (rf"^{_LEAD}i {ADVERBS}{DISLIKES} {_NOT_TASTE}(?P<x>.+)", _taste(False)),
        (rf"^{_LEAD}i {ADVERBS}{LIKES} {_NOT_TASTE}(?P<x>.+)", _taste(True)),
        (rf"^{_LEAD}i (?:have )?(?:got )?(?:(?:absolutely )?(?:no|zero|little)) interest in (?P<x>.+)", _taste(False)),
        (r"^(?:absolutely )?(?:no|zero) interest in (?P<x>.+)", lambda m: _elliptic("The user has ", m)),
        (r"^i would (?:always )?(?:take|choose|pick) (?P<x>.+? over .+)", _taste(True)),
        (r"^i could (?:eat|drink|listen to|watch|read|live on) (?P<x>.+?) (?:every day|all day|forever|any day|any time)$", _taste(True)),
        (rf"^{_LEAD}i am (?:more of |definitely |really |totally )*an? (?P<x>(?!(?:morning|night|people|busy|nice|good|bad|new|young|old|different|private|family|kind|normal|real|happy|simple|single|sick|lucky)\b)\w+(?: \w+)?) (?:person|drinker|lover|guy|girl|man|woman)$", _taste(True)),
        (rf"^{_LEAD}i am {ADVERBS}(?:terrified|scared|frightened|afraid|petrified) of (?P<x>.+)", _taste(False)),
        (r"^i would (?:much |far )?rather (?P<x>.+? than .+)", _taste(True)),
        (r"^i (?:usually|always|normally|typically|mostly|tend to|generally|often|only) (?P<x>(?:take|drink|eat|order|buy|book|fly|travel|use|choose|pick|wear|shop|go for|listen|watch|read|work|stay|pay|cook|have|sit|sleep|wake|get up) .+)", lambda m: _habit(m)),
        (rf"^i {ADVERBS}(?!(?:do not|never|no longer|will not|refuse to) (?:really |ever |even )?have\b)(?:cannot|must not|may not|am not allowed to|should not|never|do not|do not ever|no longer|refuse to|will never|will not|cannot ever) (?:really |ever |even )?(?P<verb>eat|drink|have(?! (?:any |a |an |much |to |the |time|enough|money|idea))|consume|smoke|tolerate|digest|fly|drive|wear|touch|cook|gamble|swim)\b(?P<x>.*)", _own_limit),
        (rf"^i {ADVERBS}(?:have )?(?:stopped|quit|gave up|given up) (?P<verb>eating|drinking|smoking|consuming|driving|flying|using|buying|gambling)\b(?P<x>.*)", _own_limit),
        (rf"^i {ADVERBS}(?:have )?(?P<verb>cut out|given up|gave up|sworn off|stopped having) (?P<x>(?!on\b|trying\b|hope\b).+)", _own_limit),
        (rf"^i {ADVERBS}(?:do not|never) (?:really |ever |actually |usually )?(?:watch|read|listen to|play|wear|cook|buy|celebrate|follow|trust) (?P<x>.+)", _taste(False)),
        (r"^(?:please )?(?:never|do not ever|you (?:must|should|may|can) (?:never|not ever)|make sure (?:you )?(?:to )?never(?: to)?|i (?:need|want|would like) you (?:to never|never to)|be sure (?:to )?never(?: to)?) (?P<x>.+)", _demand("never to")),
        (r"^(?:please )?(?:do not|you (?:must|should|may) not|make sure (?:not to|you do not)|i (?:need|want|would like) you not to|i do not want you to|be sure not to) (?P<x>.+)", _demand("not to")),
        (r"^(?:please )?(?:stop|quit|avoid) (?P<x>\w+ing .+)", lambda m: _stop(m)),
        (r"^(?:please )?(?:always|you (?:must|should|need to|have to) always|make sure (?:to always|you always|that you always|to)|i (?:need|want|would like) you to always|be sure to always) (?!(?:on|in|at|the|an?|been|so|too|very|there|my|our|some|someone|works?|worked|happens?|has|is|was|gets?)\b)(?P<x>.+)", _demand("to always")),
        (r"^(?P<x>(?:the|all|every|any|each|my|our) .{1,80}?\b(?:must|has to|have to|needs to|need to|cannot|can only|may not|should not|must not|must never|should be|should never|should always) (?!(?:go|leave|be (?:wrong|kidding|joking))$)\w+ ?.*)", _requires),
        (r"^(?P<x>(?!(?:it|this|that|these|those|there|he|she|they|you|i|we|life|god|my (?:boss|friend|wife|husband|sister|brother|mother|father|mum|mom|dad|client|manager|teacher|doctor)|the (?:client|boss|manager|teacher|customer|government|law))\b)[\w\-']+(?: [\w\-']+){0,4}? (?:must (?:never|always|not|be)|should (?:never|always)|has to be|have to be|cannot (?:exceed|contain|include|be)) .+)", _requires),
        (r"^no (?!(?:thanks?|thank|problem|worries|idea|way|one|doubt|need|rush|matter|longer|more|luck|news|change|sign|answer)\b)(?P<x>[\w\-']+ (?:[\w\-']+ ){0,3}?(?:in|on|after|before|during|ever)\b.*)$", _none_of),
    )
)  # fmt: skip


def _elliptic(opening: str, match: re.Match[str]) -> tuple[Found, ...] | Reason:
    """A statement that leaves out "I have"."""
    content = sentence(opening + third_person(match.string[:1].lower() + match.string[1:], mentioned=True))
    why = vague(match["x"])
    return why or (Found(content, Kind.PREFERENCE, Reason.PREFERENCE, subjects.taste(match["x"], False)),)


def _habit(match: re.Match[str]) -> tuple[Found, ...] | Reason:
    if re.search(r"\b(?:it|this|that|them)\b\s*$", match["x"], _I):
        return Reason.INCOMPLETE
    return told(match.string, Kind.PREFERENCE, Reason.PREFERENCE)


def _stop(match: re.Match[str]) -> tuple[Found, ...] | Reason:
    if _ABOUT_THIS_TURN.search(match["x"]):
        return Reason.REQUEST
    content = sentence("The user asks to stop " + third_person(_inside(match["x"]), mentioned=True))
    return (Found(content, Kind.CONSTRAINT, Reason.CONSTRAINT),)


_STATES_SOMETHING = re.compile(
    r"^(?:i|we|it|he|she|they|you|my|our|his|her|the|this|that|there|an?|what|how|who)\b", _I
)


def standing_request(action: str, opening: str = "From now on") -> tuple[Found, ...] | Reason:
    """What follows "from now on": an order to the assistant that outlives this turn."""
    action = re.sub(
        r"^(?:please |you (?:should|must|can|will|are to) |i (?:want|would like|need) you to |make sure (?:to|you) )+",
        "",
        action,
        flags=_I,
    )
    negative = re.match(r"^(?:never|do not ever|do not) ", action, _I)
    how, rest = ("never to", action[negative.end() :]) if negative else ("to", action)
    if len(rest.split()) < 2 or re.search(r"\b(?:this|that|it)$", rest, _I) or _STATES_SOMETHING.match(rest):
        return Reason.INCOMPLETE
    content = sentence(f"{opening}, the user asks {how} " + third_person(_inside(rest), mentioned=True))
    kind = Kind.CONSTRAINT if negative else Kind.PREFERENCE
    return (Found(content, kind, Reason.EXPLICIT_REQUEST, _about_answers(rest)),)


def recognise_whole(statement: str) -> tuple[Found, ...] | None:
    """What only the statement before it is split says: "got it working, I swapped the cable"."""
    for pattern, build in _WHOLE:
        match = pattern.match(statement)
        found = build(match) if match else None
        if isinstance(found, tuple):
            return found
    return None


def recognise(clause: str) -> tuple[Found, ...] | Reason | None:
    """The statements in one canonical clause; a reason where a rule knows better than to keep it; None where no rule speaks."""
    for pattern, build in (*_RULES, *PROFILE_RULES):
        match = pattern.match(clause)
        if match:
            found = build(match)
            if found is not None:
                return found
    return None
