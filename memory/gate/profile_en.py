# ruff: noqa: E501 - a pattern is read as one line
"""English rules: who the user is and what is theirs. Clauses are canonical (contractions written out)."""

import re
from collections.abc import Callable

from memory.entry import Kind
from memory.gate import refusals_en, subjects
from memory.gate.found import Attribute, Found
from memory.gate.lexicon_en import (
    ADVERBS,
    CONDITIONS,
    DIETS,
    HEALTH,
    LANGUAGES,
    NATIONALITIES,
    OCCUPATIONS,
    OWN_NOUNS,
    PETS,
    RELATIVES,
)
from memory.gate.rewriting_en import sentence, third_person
from memory.verdict import Reason

Build = Callable[[re.Match[str]], "tuple[Found, ...] | Reason | None"]
_I = re.IGNORECASE

_NUMBER_WORD = (
    r"(?:\d{1,3}|(?:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)(?:[- ](?:one|two|three|four|five|six|seven|eight|nine))?|"
    r"one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen)"
)
_NOT_NAMED = re.compile(
    rf"^(?:{NATIONALITIES}|{LANGUAGES}|{DIETS}|{HEALTH}|{OCCUPATIONS}|ok|okay|fine|good|sorry|here|back|sure|not|in|on|at|so|very|yes|no|dr|gemini|leo|virgo|libra|aries|taurus|scorpio|aquarius|pisces|cancer|capricorn|sagittarius)\b",
    _I,
)
_CONTRAST = re.compile(r"^(?P<value>.+?),? (?:and )?not (?P<old>[^,]+)$", _I)


def said(
    match: re.Match[str],
    kind: Kind,
    attribute: Attribute | None = None,
    *,
    corrects: bool = False,
    names: tuple[str, ...] = (),
) -> tuple[Found, ...]:
    """One entry from the whole clause."""
    reason = Reason.CORRECTION if corrects else Reason.SELF_DESCRIPTION
    return (
        Found(
            sentence(third_person(match.string)),
            kind,
            reason,
            attribute or Attribute(),
            corrects=corrects,
            entities=names,
        ),
    )


def _one(subject: str, kind: Kind = Kind.PROFILE, *, named: bool = False, corrects: bool = False) -> Build:
    """A rule for an attribute with one value; "X, not Y" takes Y back."""

    def build(match: re.Match[str]) -> tuple[Found, ...] | Reason:
        value, old = match["x"].strip(" .,!"), None
        contrast = _CONTRAST.match(value)
        if contrast:
            value, old = contrast["value"], contrast["old"]
        if re.match(r"(?:it|this|that|here|there|you|him|her|them|not|so|a (?:bit|lot|dream|bubble))\b", value, _I):
            return Reason.INCOMPLETE
        attribute = subjects.single(subject, value, old)
        return said(match, kind, attribute, corrects=corrects or old is not None, names=(value,) if named else ())

    return build


def _plain(kind: Kind) -> Build:
    def build(match: re.Match[str]) -> tuple[Found, ...]:
        return said(match, kind)

    return build


def _device(match: re.Match[str]) -> tuple[Found, ...] | None:
    """What the user has, not what is wrong with it."""
    if re.search(
        r"\b(?:problem|issue|question|error|bug|idea|app|case|charger|interview|number|this|that|it)\b", match["x"], _I
    ):
        return None
    return said(match, Kind.FACT)


def _introduces(match: re.Match[str]) -> tuple[Found, ...] | None:
    """ "I am Anna": a name only if it is written as one and is nothing else that is."""
    name = match["x"]
    if (
        not re.fullmatch(r"[A-ZÀ-Þ][\w'’\-]*(?: [A-ZÀ-Þ][\w'’.\-]*){0,3}", name)
        or _NOT_NAMED.match(name)
        or name.isupper()
        or refusals_en.soft(match.string) is Reason.TRANSIENT
    ):
        return None
    return (
        Found(
            f"The user's name is {name}.",
            Kind.PROFILE,
            Reason.SELF_DESCRIPTION,
            subjects.single("name", name),
            entities=(name,),
        ),
    )


def _called(match: re.Match[str]) -> tuple[Found, ...] | None:
    name = match["x"].strip()
    if not re.fullmatch(
        r"(?:(?:Mr|Mrs|Ms|Dr|Miss|Doctor|Professor)\.? )?[A-ZÀ-Þ][\w'’\-]*(?: [A-ZÀ-Þ][\w'’\-]*){0,2}", name
    ):
        return None
    return (
        Found(
            f"The user asks to be called {name}.",
            Kind.PREFERENCE,
            Reason.PREFERENCE,
            subjects.single("form_of_address", name),
            entities=(name,),
        ),
    )


def _allergies(match: re.Match[str]) -> tuple[Found, ...] | Reason:
    """One entry per allergen: each may be taken back alone."""
    things = [t.strip(" .,!") for t in re.split(r",\s*(?:and\s+)?|\s+and\s+|\s*&\s*", match["x"]) if t.strip(" .,!")]
    if any(re.match(r"(?:it|this|that|them|these|those|you|work|mondays?)\b", t, _I) for t in things):
        return Reason.INCOMPLETE
    before = match.string[: match.start("x")]
    return tuple(
        Found(sentence(third_person(before + thing)), Kind.PROFILE, Reason.SELF_DESCRIPTION, subjects.allergy(thing))
        for thing in things
    )


def _not_any_more(match: re.Match[str]) -> tuple[Found, ...]:
    """An allergy or a diet that is over, or never was."""
    if match["what"]:
        subject = subjects.allergy(match["x"]).subject
        attribute = Attribute(subject, "no", exclusive=True)
    elif re.fullmatch(DIETS, match["x"], _I):
        attribute = Attribute("diet", None, exclusive=True, retracts=subjects.normal_value(match["x"]))
    else:
        attribute = subjects.standing("health", match["x"])
        attribute = Attribute(attribute.subject, None, retracts=attribute.value)
    return said(match, Kind.PROFILE, attribute, corrects=True)


def _own(match: re.Match[str]) -> tuple[Found, ...] | Reason | None:
    noun, value, old = match["noun"].lower(), match["x"].strip(" .,!"), None
    contrast = _CONTRAST.match(value)
    if contrast:
        value, old = contrast["value"], contrast["old"]
    last = noun.split()[-1]
    if last in _THINGS and not re.match(r"(?:an? |the |called |named |from |one |two )|.*[A-Z0-9]", value):
        return None  # "my laptop is slow" says how it is today, not which one it is
    if re.match(
        r"(?:not (?:sure|good|working)|too|so|very|really|broken|dead|slow|down|late|lost|gone|wrong|missing|great|good|bad|fine|not|being|getting|still|back|in my|in the)\b",
        value,
        _I,
    ) or re.match(r"(?:it|this|that|what|there)\b", value, _I):
        return None
    subject = _SUBJECT_OF.get(noun) or _SUBJECT_OF.get(last) or noun.replace(" ", "_").replace("-", "")
    kind = Kind.CONSTRAINT if last == "budget" else Kind.PROFILE if last in _PERSONAL else Kind.FACT
    attribute = subjects.single(subject, value, old)
    if kind is Kind.CONSTRAINT:
        return (Found(sentence(third_person(match.string)), kind, Reason.CONSTRAINT, attribute),)
    return said(match, kind, attribute, corrects=old is not None)


_THINGS = frozenset(
    [
        "car",
        "bike",
        "laptop",
        "computer",
        "pc",
        "mac",
        "tablet",
        "router",
        "printer",
        "camera",
        "watch",
        "headphones",
        "monitor",
        "keyboard",
        "phone",
        "mobile",
        "browser",
        "system",
        "team",
        "project",
        "company",
        "boss",
        "employer",
        "bank",
        "insurance",
    ]
)
_PERSONAL = frozenset(
    [
        "hometown",
        "nationality",
        "major",
        "hobby",
        "hobbies",
        "religion",
        "title",
        "profession",
        "occupation",
        "job",
        "language",
        "tongue",
        "pronouns",
        "surname",
        "sign",
        "height",
        "weight",
        "type",
        "degree",
        "diet",
        "university",
        "school",
        "employer",
        "company",
        "status",
    ]
)
_SUBJECT_OF = {
    "email address": "email", "e-mail": "email", "phone number": "phone", "mobile number": "phone", "number": "phone", "mobile": "phone", "landline": "landline",
    "cell phone": "phone", "home address": "address", "time zone": "time_zone", "timezone": "time_zone", "profession": "job", "occupation": "job",
    "title": "job", "native language": "native_language", "first language": "native_language", "mother tongue": "native_language",
    "company": "employer", "hobbies": "hobby", "membership": "membership", "level": "membership", "tier": "membership",
    "shipping address": "shipping_address", "budget": "budget", "laptop": "laptop", "phone": "phone",
}  # fmt: skip


def _update(match: re.Match[str]) -> tuple[Found, ...]:
    noun, value = match["noun"].lower(), match["x"].strip(" .,!")
    subject = _SUBJECT_OF.get(noun) or _SUBJECT_OF.get(noun.split()[-1]) or noun.replace(" ", "_").replace("-", "")
    kind = Kind.PROFILE if noun.split()[-1] in _PERSONAL or noun in ("name", "birthday") else Kind.FACT
    content = f"The user's {noun} is {third_person(value, mentioned=True)}."
    return (Found(content, kind, Reason.CORRECTION, subjects.single(subject, value, match["old"]), corrects=True),)


def _relative(attribute: str) -> Build:
    def build(match: re.Match[str]) -> tuple[Found, ...]:
        value, old = match["x"].strip(" .,!"), None
        contrast = _CONTRAST.match(value)
        if contrast:
            value, old = contrast["value"], contrast["old"]
        who = match["who"].lower()
        return said(
            match, Kind.PROFILE, subjects.single(f"family:{who}:{attribute}", value, old), corrects=old is not None
        )

    return build


def _no_longer(match: re.Match[str]) -> tuple[Found, ...]:
    """The old value is taken back; the new one is not known."""
    subject = (
        "home"
        if match["verb"].lower().startswith(("liv", "reside"))
        else "employer"
        if match["prep"].lower() in ("at", "for", "with")
        else "job"
    )
    old = re.sub(r"\s+any ?more$", "", match["x"], flags=_I)
    content = sentence(third_person(match.string))
    return (
        Found(
            content,
            Kind.PROFILE,
            Reason.CORRECTION,
            Attribute(subject, None, exclusive=True, retracts=subjects.normal_value(old)),
            corrects=True,
        ),
    )


def _languages(match: re.Match[str]) -> tuple[Found, ...]:
    return said(match, Kind.PROFILE, Attribute("languages", subjects.normal_value(match["x"])))


_FREQUENCY = r"(?:every (?:other )?(?:\w+ )?(?:day|morning|evening|night|week|weekend|month|year|mon|tues|wednes|thurs|fri|satur|sun)\w*|(?:once|twice|three times|\d+ times) an? (?:day|week|month|year)|on (?:mon|tues|wednes|thurs|fri|satur|sun)days|on weekends|on weekdays|daily|weekly)"
_NAME_TAIL = r"(?P<x>[^\s].*)"
_I_AM = rf"i am {ADVERBS}"
PROFILE_RULES: tuple[tuple[re.Pattern[str], Build], ...] = tuple(
    (re.compile(pattern, _I), build)
    for pattern, build in (
        (r"^my (?:(?:full|first|last|real|given|family|middle|legal|actual) )*name (?:is|was) (?!(?:not|on|in|at|the|a|an|my|your|too|so|very|being|written|spelled|missing|wrong|misspelled|hard|pronounced|already|also)\b)(?:actually |really )?" + _NAME_TAIL, _one("name", named=True)),
        (r"^i (?:am|was) (?:called|named) " + _NAME_TAIL, _one("name", named=True)),
        (r"^(?:i go by|people call me|everyone calls me|my friends call me|you (?:can|may) call me|(?:please )?call me) (?P<x>.+)", _called),
        (rf"^(?:i|we) {ADVERBS}(?:live|reside|have lived|have been living|am living|are living|stay permanently|am based|are based|am located) (?:in|at|near|on|outside|just outside|by|out of) (?P<x>.+)", _one("home", named=True)),
        (rf"^(?:i|we) {ADVERBS}live (?P<x>(?:downtown|uptown|abroad|overseas|off campus|on campus|in town|upstate)\b.*)", _one("home")),
        (rf"^{_I_AM}an? (?P<x>(?-i:[A-Z])[a-z]+(?: (?-i:[A-Z])[a-z]+)?(?:er|ian|ite|ean))$", _one("origin")),
        (rf"^{_I_AM}an? (?P<x>(?:freshman|sophomore|junior|senior)\b(?: (?:in|at) .+)?)$", _plain(Kind.PROFILE)),
        (rf"^i was (?:raised|brought up) (?P<x>{NATIONALITIES})\b.*", _plain(Kind.PROFILE)),
        (r"^(?:my|our) (?:company|team|office|department|school|employer|family|household) (?P<x>(?:mostly |only |still )?(?:uses|runs on|relies on|is on) (?!(?:it|this|that)\b).+)", _plain(Kind.FACT)),
        (r"^i live (?P<x>alone|by myself|with (?:my|a|two|three|an) .+|on my own|by myself)", _one("household")),
        (rf"^(?:i|we) (?:have )?{ADVERBS}(?:just |recently |finally )*(?:moved|relocated|emigrated) (?:from [\w ]+? )?(?:back |over |out )?(?:to|into) (?P<x>.+)", _one("home", corrects=True)),
        (rf"^{_I_AM}(?:originally )?from (?P<x>(?-i:[A-Z]).*|a .+|the .+)", _one("origin", named=True)),
        (rf"^i {ADVERBS}(?:come from|was raised in|grew up in|am a native of) (?P<x>.+)", _one("origin", named=True)),
        (r"^i was born (?:and raised )?in (?P<x>(?-i:[A-Z][a-z]).*)(?<!\d)$", _one("birthplace", named=True)),
        (r"^i was born (?:on|in) (?P<x>.*\d.*)", _one("birthday")),
        (r"^my birthday (?:is|falls) (?:on |in )?(?P<x>.+)", _one("birthday")),
        (rf"^{_I_AM}(?P<x>{_NUMBER_WORD})(?: years? old| yo| y/o| years of age)?$", _one("age")),
        (rf"^i (?:just )?turn(?:ed)? (?P<x>{_NUMBER_WORD})\b.*", _one("age")),
        (rf"^{_I_AM}(?:really |very )?(?:severely |highly |deathly |mildly |badly |slightly )?allergic to (?P<x>.+)", _allergies),
        (r"^i am (?:no longer|not) (?:actually |really )?(?P<what>allergic to) (?P<x>.+?)(?: any ?more)?$", _not_any_more),
        (rf"^i am no longer (?:an? )?(?P<what>)(?P<x>{DIETS}|{HEALTH})$", _not_any_more),
        (r"^i have an? (?:severe |bad |mild |serious |slight )?allergy to (?P<x>.+)", _allergies),
        (r"^i have an? (?:severe |bad |mild |serious |slight )?(?P<x>[\w]+(?: \w+)?) allergy\b.*", lambda m: said(m, Kind.PROFILE, subjects.allergy(m["x"]))),
        (rf"^{_I_AM}(?:an? )?(?P<x>{DIETS})(?: .*)?$", _one("diet")),
        (r"^i (?:follow|keep|eat|am on) (?:an? )?(?P<x>(?:strictly |strict |mostly )?(?:vegetarian|vegan|kosher|halal|keto|paleo|gluten-free|low-carb|low-sodium|mediterranean|plant-based|low-fat|high-protein)(?: diet| food)?)$", _one("diet")),
        (rf"^{_I_AM}(?:a )?(?P<x>{HEALTH})(?: .*)?$", lambda m: said(m, Kind.PROFILE, subjects.standing("health", m["x"]))),
        (rf"^i {ADVERBS}(?:have|suffer from|was diagnosed with|have been diagnosed with|live with) (?P<x>{CONDITIONS})\b.*", lambda m: said(m, Kind.PROFILE, subjects.standing("health", m["x"]))),
        (rf"^{_I_AM}(?P<x>(?:happily |recently |newly )?(?:married|single|divorced|widowed|engaged|separated))(?: .*)?$", _one("marital_status")),
        (r"^i (?:have been|got) (?P<x>married|divorced|engaged)\b.*", _one("marital_status")),
        (rf"^{_I_AM}(?P<x>left[- ]handed|right[- ]handed|ambidextrous)$", _one("handedness")),
        (rf"^{_I_AM}(?P<x>retired|semi-retired|unemployed|self-employed|between jobs|on parental leave|freelance)(?: .*)?$", _one("job")),
        (rf"^{_I_AM}in my (?P<x>(?:early |mid |late |mid-)?(?:twenties|thirties|forties|fifties|sixties|seventies|\d0s)|(?:first|second|third|fourth|fifth|final|last|junior|senior|freshman|sophomore) (?:year|semester)(?: of .+| at .+)?)$", _plain(Kind.PROFILE)),
        (rf"^{_I_AM}an? (?P<x>aries|taurus|gemini|leo|virgo|libra|scorpio|sagittarius|capricorn|aquarius|pisces)$", _one("star_sign")),
        (rf"^i {ADVERBS}(?:went to|attended|dropped out of|graduated from|did my \w+ (?:at|in)) (?P<x>(?:high school|college|university|grad school|law school|med school|boarding school|school|uni|(?-i:[A-Z])\w+ (?:University|College|High|School))\b.*)", _plain(Kind.PROFILE)),
        (rf"^i {ADVERBS}(?:spent my (?:childhood|youth)|was brought up|was raised) in (?P<x>.+)", _one("origin", named=True)),
        (r"^(?:i|we) (?:have )?(?:just |recently )?had (?:our|my|a) (?P<x>(?:first |second |third )?(?:baby|child|son|daughter|boy|girl))\b.*", _plain(Kind.PROFILE)),
        (rf"^i {ADVERBS}(?:get|suffer from|am prone to|struggle with) (?P<x>(?:really |very |bad |terrible |frequent )*(?:car ?sick|sea ?sick|air ?sick|motion ?sick(?:ness)?|migraines?|vertigo|nosebleeds|panic attacks|heartburn)\b.*)", _plain(Kind.PROFILE)),
        (r"^(?P<x>(?!(?:it|this|that|he|she|they|you|work|my)\b)[\w ]{2,30}? (?:gives? me|triggers my|upsets my|makes me) (?:a |an |really |very )*(?:migraines?|headaches?|hives|rash|heartburn|stomach|nauseous|sick|nausea|asthma|bloated|jittery)\b.*)", _plain(Kind.PROFILE)),
        (rf"^(?:my|our) (?P<who>{RELATIVES}) is (?P<x>(?:\w+ months? )?(?:pregnant|expecting))\b.*", _relative("expecting")),
        (rf"^i am {ADVERBS}(?:doing|pursuing|finishing|getting) (?P<x>an? .*(?:degree|phd|masters?|master's|mba|apprenticeship|bachelors?|bachelor's|diploma)\b.*)", _plain(Kind.PROFILE)),
        (rf"^{_I_AM}an? (?P<x>(?:\w+ )?(?:gold|silver|platinum|premium|vip|diamond|bronze|prime|pro|plus|elite|enterprise|free)[\w\- ]* ?(?:member|customer|subscriber|user|cardholder|tier))$", _one("membership", Kind.FACT)),
        (rf"^{_I_AM}(?:training to be |working as )?an? (?P<x>(?:[\w\-']+ ){{0,5}}?{OCCUPATIONS})(?:(?: (?:at|for|in|from|with|by|on|specializ\w+|who) |,).*)?(?: now)?$", _one("job")),
        (rf"^{_I_AM}(?:the )?(?P<x>(?:ceo|cto|cfo|coo|head|vp|director|manager|owner|founder|co-founder|chair|lead)\b(?: of .+| at .+|$))", _one("job")),
        (rf"^{_I_AM}(?P<x>(?:a|an|the) (?:single |proud |new |young |working |busy )*(?:mother|father|mum|mom|dad|parent|grandmother|grandfather)(?: of .+|-of-.+| living in .+)?)$", _plain(Kind.PROFILE)),
        (rf"^{_I_AM}(?P<x>an? (?:morning|night|cat|dog|people|family) person|a night owl|an? early (?:bird|riser)|an? (?:introvert|extrovert|only child|twin|native .+ speaker|non-native .+ speaker|immigrant|expat|veteran|minimalist|smoker|non-smoker|beginner .+|heavy sleeper|light sleeper|beginner|runner|cyclist|swimmer|climber|gamer|collector|.*\b(?:fan|lover|enthusiast|aficionado|buff)))$", _plain(Kind.PROFILE)),
        (rf"^{_I_AM}(?P<x>{NATIONALITIES}(?:[- ]\w+)?)(?: citizen)?$", _one("nationality")),
        (rf"^{_I_AM}(?P<x>\d[\d.,']* ?(?:cm|m|kg|kilos|pounds|lbs|feet|foot|ft|inches)\b.*)", _plain(Kind.PROFILE)),
        (rf"^i {ADVERBS}work (?:full-time |part-time |freelance )?as (?P<x>.+)", _one("job")),
        (rf"^i {ADVERBS}work (?:full-time |part-time |remotely )?(?:at|for) (?P<x>(?!home\b|night\b|now\b|it\b|the moment\b|least\b|that\b|this\b|me\b).+)", _one("employer", named=True)),
        (rf"^i {ADVERBS}work (?P<x>(?:in|with) .+|from home.*|remotely.*|nights?.*|night shifts.*|part-time.*|full-time.*|shifts.*)", _plain(Kind.PROFILE)),
        (r"^i (?:have )?(?:just |recently )?(?:(?:started|begun) (?:a new job|work|working) (?:at|as|with|for)|joined|started (?:at|as)) (?P<x>(?:an? |the )?(?-i:[A-Z]).*|an? .+)", _one("job", corrects=True)),
        (rf"^i {ADVERBS}(?:teach|study|am studying|studied|majored in|major in|am majoring in|did my (?:degree|phd|masters?|bachelors?) in|have a (?:degree|phd|masters?|bachelors?) in) (?P<x>(?!for\b|the (?:text|file|question)).+)", _plain(Kind.PROFILE)),
        (r"^i graduated (?P<x>.+)", _plain(Kind.PROFILE)),
        (rf"^i {ADVERBS}(?:run|own|manage|founded|co-founded|have) (?P<x>(?:an?|my own|two|three) (?:\w+ ){{0,3}}(?:bakery|shop|store|restaurant|caf[eé]|company|business|startup|farm|agency|studio|clinic|practice|firm|salon|gym|hotel|blog|bookshop|bar|workshop|gallery|school|nonprofit|charity))\b.*", _plain(Kind.PROFILE)),
        (rf"^(?:i|we) {ADVERBS}(?:have|have got) (?P<x>(?:an?|one|two|three|four|five|six|seven|no|\d+|twin)\b(?: [\w\-]+){{0,2}}? {RELATIVES})\b.*", _plain(Kind.PROFILE)),
        (rf"^(?:i|we) {ADVERBS}(?:have|have got) (?P<x>(?:twins|twin (?:boys|girls)|triplets))\b.*", _plain(Kind.PROFILE)),
        (rf"^(?:i|we) {ADVERBS}(?:have|own|have got|adopted|got|have adopted) (?P<x>(?:an?|one|two|three|four|five|six|\d+)\b(?: [\w\-]+){{0,3}}? {PETS})\b.*", _plain(Kind.PROFILE)),
        (rf"^(?:my|our) (?P<who>{RELATIVES}|(?:\w+ )?{PETS})(?:'s name (?:is|was)| is (?:called|named)| are (?:called|named)|'s called) (?P<x>.+)", _relative("name")),
        (rf"^(?:my|our) (?P<who>{RELATIVES})(?:'s birthday is| was born)(?: on| in)? (?P<x>.+)", _relative("birthday")),
        (rf"^(?:my|our) (?P<who>{RELATIVES}|{PETS}) (?:is|turned|just turned|will be) (?:now )?(?P<x>{_NUMBER_WORD}(?: (?:years?|months?)(?: old)?)?)$", _relative("age")),
        (rf"^i (?:can )?{ADVERBS}speak (?:fluent |native |some |a little |a bit of |basic )?(?P<x>{LANGUAGES}\b.*)", _languages),
        (rf"^i am {ADVERBS}(?:learning|studying|fluent in|bilingual in) (?P<x>{LANGUAGES}\b.*)", _languages),
        (rf"^my (?P<noun>{OWN_NOUNS}) (?:is|are|will be|has to be|should be|cannot exceed|must not exceed|is set to) (?:now |still )?(?:at |around |about )?(?P<x>.+)", _own),
        (r"^(?:please )?(?:change|update|correct|set|switch) (?:my|the) (?P<noun>(?:[\w\-]+ ){0,2}(?:address|email|e-mail|phone|number|name|birthday|timezone|zone|size|job|title|budget|language|diet|surname|pronouns)) (?:from (?:[^\s]+(?: [^\s]+){0,4}) )?to (?P<x>.+?)(?:,? (?:not|instead of|from) (?P<old>.+))?$", _update),
        (rf"^i {ADVERBS}(?:drive|ride|own|have got|have|use|am on|am using|run|play on) (?P<x>(?:an? |the |my )?(?:\d{{4}} |old |new |used |second-hand )*(?:iphone|ipad|macbook|mac|imac|pixel|galaxy|samsung|android|windows|linux|thinkpad|xbox|playstation|ps5|nintendo|switch|kindle|tesla|toyota|honda|ford|bmw|audi|volvo|fiat|kia|nissan|mazda|renault|peugeot|subaru|hyundai|volkswagen|vw|skoda|seat|mini|dell|lenovo|hp|asus|canon|nikon|sony|apple|huawei|xiaomi|oneplus|motorola|fitbit|garmin|chromebook|surface)\b.*)", _plain(Kind.FACT)),
        (rf"^(?:i|we) {ADVERBS}(?:own|have|have got|bought|use) (?P<x>(?:an? |my own )?(?:[\w\-]+ ){{0,3}}(?:dslr|camera|laptop|desktop|tablet|phone|smartphone|printer|router|broadband|fibre|console|e-reader|smartwatch|projector|drone|telescope|electric car|motorbike|motorcycle|scooter|e-bike|piano|guitar|violin|garden|allotment|balcony|caravan|boat|house|flat|apartment)\b.*)", _device),
        (r"^i (?P<x>do not (?:have|own) (?:an? |any )?(?:car|kids|children|pets?|tv|television|smartphone|licence|license|driver's license|siblings|credit card|garden|oven|microwave|dishwasher)\b.*)", _plain(Kind.FACT)),
        (rf"^{_FREQUENCY},? i (?P<x>(?!am\b|want\b|need\b|will\b|would\b|had\b|was\b).+)", _plain(Kind.FACT)),
        (rf"^i {ADVERBS}(?:drive|ride) (?P<x>an? .+)", _plain(Kind.FACT)),
        (rf"^i {ADVERBS}use (?P<x>(?:an? (?:\w+ )?(?:screen reader|wheelchair|hearing aid|standing desk|mac|pc)|(?-i:[A-Z])[\w.+#]*(?: (?-i:[A-Z0-9])[\w.+#]*){{0,3}})(?: (?:for|at|as|on|with|every|daily|instead) ?.*)?$)", _plain(Kind.FACT)),
        (rf"^i {ADVERBS}(?P<x>(?!.*\b(?:it|this|that|them|these|those)\b|am\b|want\b|need\b|will\b|would\b|had\b|was\b|did\b|do\b|wonder\b|forgot\b)[a-z]+ (?:.{{0,60}} )?{_FREQUENCY})$", _plain(Kind.FACT)),
        (rf"^i {ADVERBS}(?:play|practice|practise|collect|brew|coach|volunteer at|volunteer as|sing in|write for) (?P<x>(?!with\b|it\b|this\b|that\b|a game\b).+)", _plain(Kind.PROFILE)),
        (r"^i (?:wear|take) (?P<x>(?:a )?(?:size|glasses|contact lenses|hearing aids|contacts|insulin|blood thinners|medication|antidepressants)\b.*)", _plain(Kind.PROFILE)),
        (r"^i (?P<verb>no longer (?:live|reside|work)|do not (?:live|reside|work)|have stopped working|stopped working) (?P<prep>in|at|for|with|as) (?P<x>.+ any ?more)$", _no_longer),
        (r"^i no longer (?P<verb>live|reside|work) (?P<prep>in|at|for|with|as|near|on) (?P<x>.+)$", _no_longer),
        (r"^i (?:have )?(?:just |recently )?(?:quit|left|resigned from|retired from) (?P<x>my job.*|(?:(?-i:[A-Z]).*))", lambda m: said(m, Kind.PROFILE, corrects=True)),
        (r"^i am (?P<x>\S+(?: \S+){0,3})$", _introduces),
    )
)  # fmt: skip
