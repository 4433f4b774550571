# ruff: noqa: E501 - a pattern is read as one line
"""Why an English sentence is kept out. Hard refusals come before the rules, soft ones name what no rule spoke for."""

import re

from memory.gate.lexicon_en import IMPERATIVES, RELATIVES
from memory.verdict import Reason

_I = re.IGNORECASE

DECLINED = re.compile(
    r"\b(?:(?:do not|never|please do not|no need to|need not) (?:\w+ )?(?:remember|save|store|record|memori[sz]e|note|keep|write|log|retain)(?: down)? (?:this|that|it|any of (?:this|that)|what i|a record)|"
    r"(?<!not )(?<!never )forget (?:(?:that|this|it)\b(?! i\b| my\b| we\b)|what i (?:just )?said|i (?:said|told|mentioned))|off the record|scratch that|between us only|ignore what i (?:just )?said)",
    _I,
)
INSTRUCTION = re.compile(
    r"\b(?:(?:ignore|disregard|forget|override|bypass|overlook|drop|break|discard)\b.{0,40}\b(?:rules?|instructions?|prompts?|guidelines?|polic(?:y|ies)|guardrails|restrictions?|programming|training|safety)|"
    r"system (?:prompt|message|instructions?)|(?:you are|you're) now|from now on,? you (?:are|will be|must|have no)|act as (?:if|though|an?|my|the)\b|pretend (?:to be|you|that you)|jailbreak|"
    r"(?:do not|never|stop) (?:follow|obey|observe|respect|apply)\w* (?:any |the |your |all )*(?:rules|restrictions|instructions|guidelines|limits|polic)|developer mode|do anything now|your (?:new |own |real |true |hidden )?(?:rules|instructions|guidelines|programming|restrictions|training|persona|directives?|prompt)\b|"
    r"(?:to|tell|for|inform|convince) (?:everyone|everybody|every (?:user|customer|person)|all (?:users|customers|people|other users)|other users|anyone|anybody|whoever)|"
    r"(?:everyone|anyone|whoever) who asks|no matter (?:who|what) (?:asks|anyone|i)|"
    r"(?:always|only|must|should) (?:recommend|promote|endorse|advertise|praise|plug|say (?:that|yes)|claim|tell (?:people|users|them))\b|"
    r"never (?:refuse|decline|say no|disagree|mention (?:that )?you)|(?:obey|comply with) (?:me|my|every|all)|you (?:must|have to|will) (?:obey|comply|never refuse)|"
    r"unrestricted|without (?:any )?(?:restrictions|limits|filters?)|(?:extract|store|save) (?:the )?(?:facts|memories|information) (?:from|about) (?:the )?(?:conversation|user)|"
    r"you are an? (?:\w+ ){0,3}(?:assistant|ai|bot|model|chatbot|agent|system))",
    _I,
)
SARCASM = re.compile(
    r"(?:(?:^|\s)/s\b|\byeah,? right\b|,\s*not[.!]*$|\bas if\b[.!]*$|\bsarcasm\b|🙄|\boh (?:yeah|sure|great|joy),|\bsaid no one ever|\bjust (?:kidding|joking)\b|\bjk\b|"
    r"\bonly joking\b|\bthanks? for nothing\b|\bcouldn't be happier to be\b)",
    _I,
)
QUOTATION = re.compile(
    r"(?:^[\"“”'‘«](?!re\b)|[\"“][^\"”]*\b(?:I|my|me)\b[^\"”]*[\"”]|\b(?:he|she|they|people|everyone|someone|mom|mum|dad|boss|wife|husband|friend|sister|brother|doctor|teacher|colleague|neighbou?r|guy|lady|article|book|sign|site|song|lyrics?|character|author|email|message|quote|saying|who|it)"
    r"(?: always| often| once| just| also| keeps?)?(?: told (?:me|us|him|her|them)| says?| said| saying| wrote| writes| claims?| claimed| goes| reads| asked| thinks?| mentioned| insists?)\b|"
    r"\b(?!(?:i|that|having|easier|enough|been|being|all|as)\b)\w+ (?:says|said|told (?:me|us|him|her)|claims|claimed|insists)\b|\b(?:quote|quoting|according to|as the saying goes|in the words of)\b|\b(?:said|says|wrote|reads|goes)[:,]?\s*[\"“'‘])",
    _I,
)
_NOT_QUOTED = re.compile(r"^my (?:doctor|dentist) (?:told me|said|says)", _I)
HYPOTHETICAL = re.compile(
    r"\b(?:if|what if|suppose|supposing|imagine|imagining|assume|assuming|hypothetically|let us (?:say|assume|pretend)|say i (?:am|was|were|had|lived)|in theory|"
    r"were i|had i|might|maybe|perhaps|possibly|i wish|unless|in case|could be|would be|would have|would love|could have|pretend)\b|\bi (?:could|would)\b(?! (?:rather|prefer|like\b|take .+ over|(?:eat|drink|listen to|watch|read|live on) .+ (?:every day|all day|forever|any day|any time)))|\bwhen i (?:am (?:rich|old|older|famous|retired)|grow up|win|get rich)\b",
    _I,
)
STANDING = re.compile(r"\b(?:always|never|from now on|every time|whenever|going forward|do not ever)\b", _I)
_WH = r"(?:(?:what|where|why|how|who|whom|whose|which)|when(?= (?:is|are|was|were|do|does|did|can|could|will|would|should|shall|has|have)\b))"
QUESTION = re.compile(
    rf"^(?:(?:and|so|but|then|or|also|hey|ok|okay|well)[,\s]+)*(?:{_WH}\b(?!ever)(?! i (?:hate|love|like|prefer|need) (?:most )?is)|"
    r"(?:can|could|do|does|did|is|are|am|was|were|will|would|should|shall|have|has|had|may|might|must)(?: not)? (?:i|you|we|they|he|she|it|there|this|that|these|those|the|my|your|our|a|an|any|anyone|someone|everyone)\b|"
    r"any (?:idea|chance|suggestions|recommendations|tips|thoughts)|how about|what about)",
    _I,
)
TAG = re.compile(
    r",\s*(?:right|correct|ok|okay|yes|no|huh|eh|(?:is|are|do|does|did|have|has|was|were|would|will|can|could) ?(?:not|n't)? (?:i|it|you|they|he|she|we)(?: not)?)\s*\?*$|\?\s*right$",
    _I,
)
REMEMBER_QUESTION = re.compile(
    r"^(?:do|did|can|will|would|don't|do not) you (?:still |not )?(?:remember|recall|know)(?<!can you remember)(?<!will you remember)(?<!would you remember)|^(?:can|will|would) you remember (?!(?:that )?(?:i|my|we|our)\b)|^(?:i )?remember when\b",
    _I,
)
TRANSIENT = re.compile(
    r"\b(?:today|tonight|right now|at the moment|this (?:morning|afternoon|evening|week|weekend)|for now|yesterday|tomorrow|just now|at this moment|"
    r"last night|next (?:week|month|year)|on my way|in a (?:minute|moment|bit|hurry)|later today|a (?:minute|moment|while) ago|soon|for the next (?:hour|few))\b",
    _I,
)
_TRANSIENT_STATE = re.compile(
    r"^(?:i am|i feel|i was|i have been feeling|i am feeling|we are)\s+(?:(?:so|very|really|a bit|a little|pretty|quite|just|super|still|too|extremely|kind of|also|feeling|getting|totally|absolutely)\s+)*"
    r"(?:hungry|starving|thirsty|tired|exhausted|sleepy|bored|busy|sad|happy|angry|mad|upset|annoyed|frustrated|excited|nervous|anxious|"
    r"stressed|sick|ill|cold|hot|late|running|confused|lost|stuck|sorry|worried|glad|fine|ok|okay|good|great|well|ready|done|back|here|home|"
    r"off|out|free|full|drunk|dizzy|curious|sure|afraid|impressed|surprised|disappointed|in (?:a|the)|at (?:the|my|work|home)|about to|"
    r"going|heading|waiting|looking|trying|working on|writing|having|reading|thinking|planning|driving|flying|travel+ing|eating|cooking|making|doing|watching|meeting|leaving|wondering|stuck|feeling)\b|"
    r"^i (?:just|recently|finally)?\s*(?:ate|had|went|saw|finished|got (?:back|up|home)|woke|came|arrived|missed|forgot|lost|watched|bought|spent|feel|need a|need some|have (?:just|to|a (?:headache|cold|fever|meeting|question|problem|deadline)|"
    r"no idea|been (?:waiting|trying|feeling|working))|am having)\b|^my (?:head|back|stomach|tooth|throat|leg|feet|neck)\b.{0,12}\b(?:hurts?|aches?|is killing|is sore)|^i will\b|^i am not (?:feeling|sure|ready|done)",
    _I,
)
_THIRD = re.compile(
    rf"^(?:he|she|they|it|his|her|their|someone|somebody|everyone|everybody|people|nobody|one of my)\b|^(?:my|our) (?:\w+ )?(?:{RELATIVES}|friends?|colleagues?|coworkers?|boss|manager|neighbou?rs?|roommate|flatmate|teacher|client|"
    r"landlord|team|cousin|ex|family|in-laws|best friend|classmate|doctor)(?:'s)?\b|^the (?:boss|team|client|neighbou?rs?|guy|girl|kids)\b",
    _I,
)
_THIRD_NAME = re.compile(
    r"^[A-Z][a-zé]+(?: [A-Z][a-z]+)? (?:is|was|has|likes|loves|hates|lives|works|prefers|wants|enjoys|does|said|went|plays|speaks|moved)\b"
)
_NOT_A_NAME = frozenset(
    [
        "it",
        "that",
        "this",
        "there",
        "everything",
        "nothing",
        "something",
        "today",
        "life",
        "work",
        "water",
        "money",
        "time",
        "pizza",
        "coffee",
        "tea",
    ]
)
_REQUEST = re.compile(
    rf"^(?:please\s+)?(?:just\s+|now\s+|then\s+|also\s+)*(?:{IMPERATIVES}\b(?!ing)|let us\b|do not\b|never mind)|^please\b|^(?:i (?:want|need|would like|would love|am looking for|wish) )|^(?:can|could|would) you\b|"
    r"^(?:we need|we want|let me|more|another|next|again|shorter|longer|louder|same)\b|^(?:could|would) (?:be )?(?:great|nice)\b|^looking for\b|^i will (?:take|have)\b|^one more\b",
    _I,
)
_SMALL_TALK = re.compile(
    r"^(?:hi|hey+|hello|yo|hiya|howdy|good (?:morning|night|evening|afternoon|day)|morning|bye|goodbye|see you|see ya|cheers|thanks?|thank you|ta|thx|ty|ok(?:ay)?|"
    r"yes|yeah|yep|yup|no|nope|nah|sure|fine|great|cool|nice|perfect|awesome|amazing|wow|oh|ah|hmm+|um+|lol|lmao|haha+|hehe+|ha|got it|understood|makes sense|sounds good|"
    r"alright|right|exactly|indeed|well done|good (?:job|point|idea|one|bot)|you are|you rock|you have been|sorry|my bad|no (?:problem|worries|thanks?|idea|way)|welcome|congrats|interesting|that is|it is|"
    r"what a|never mind|do not worry|i see|i know|i understand|i agree|i guess|i love (?:you|your|it|this|that|how you)|i like (?:you|your|how you)|i hope|i appreciate|lovely|the weather|it was|same here|nice to|how nice|of course|damn|ugh|hooray|yay|no doubt|whatever)\b",
    _I,
)
_FRAGMENT = re.compile(
    r"^(?:(?:and|but|because|so|or|also|not|me|mine|this|that|these|those|it|them|the other|the first|the second|the last|with|for|without|which|than|"
    r"me (?:too|neither))\b.*|i (?:do|am|did|have|was|will|can)(?: too| not)?)?$",
    _I,
)


def hard(sentence: str) -> Reason | None:
    """Why nothing in this canonical sentence may be kept, whatever else it says; None if nothing forbids it."""
    if DECLINED.search(sentence):
        return Reason.DECLINED
    if INSTRUCTION.search(sentence):
        return Reason.INSTRUCTION
    if SARCASM.search(sentence):
        return Reason.SARCASM
    if TAG.search(sentence) or REMEMBER_QUESTION.search(sentence):
        return Reason.QUESTION
    if QUOTATION.search(sentence) and not _NOT_QUOTED.search(sentence):
        return Reason.QUOTATION
    if HYPOTHETICAL.search(sentence) and not STANDING.search(sentence):
        return (
            Reason.QUESTION
            if QUESTION.search(sentence) and not re.search(r"\bif\b|imagine|suppose", sentence, _I)
            else Reason.HYPOTHETICAL
        )
    return None


def is_question(clause: str) -> bool:
    return clause.rstrip().endswith("?") or bool(QUESTION.search(clause))


def is_transient(clause: str) -> bool:
    """True now and of no use later."""
    return bool(TRANSIENT.search(clause))


def soft(clause: str) -> Reason:
    """What a clause that no rule speaks for most likely is."""
    name = _THIRD_NAME.match(clause)
    if name and clause.split()[0].lower() not in _NOT_A_NAME:
        return Reason.THIRD_PARTY
    if _SMALL_TALK.search(clause):
        return Reason.SMALL_TALK
    if is_transient(clause) or _TRANSIENT_STATE.search(clause):
        return Reason.TRANSIENT
    if _REQUEST.search(clause):
        return Reason.REQUEST
    if _FRAGMENT.search(clause):
        return Reason.INCOMPLETE
    if _THIRD.search(clause):
        return Reason.THIRD_PARTY
    return Reason.UNRECOGNISED
