"""The gate for an explicit write: the caller asks to remember this text, in the first or the third person."""

from dataclasses import replace

from memory.entry import Kind, Source
from memory.gate import rewriting_en
from memory.gate.documents import holds_secret, not_talk
from memory.gate.found import Found, candidate
from memory.gate.judging import ENGLISH, Grammar, excerpt, grammar_of, prepared
from memory.policy import GatePolicy
from memory.text import language, normalise, sentences
from memory.verdict import Judgement, Reason

_REFUSED = (Reason.DECLINED, Reason.INSTRUCTION, Reason.SARCASM)
_EMPTY = (Reason.SMALL_TALK, Reason.INCOMPLETE)


def judge_explicit(
    text: str,
    kind: Kind | None = None,
    source: Source = Source.USER,
    *,
    policy: GatePolicy | None = None,
    importance: float | None = None,
) -> tuple[Judgement, ...]:
    """The judgements on a text that somebody asks to keep (`POST /v1/memories`, mode `gated`).

    Where rules recognise every clause, one entry each, with subject and value; otherwise the text is one entry as it was worded, of
    the given kind, or a fact. Refused: instructions to the model, questions, what is not talk or says nothing, secrets, and
    what is over the policy's limits. `importance` in [0, 1] overrides the rule's. Deterministic, never raises.
    """
    policy = policy or GatePolicy()
    line = normalise(text)
    refused = _refused(text, line, policy)
    if refused is not None:
        return (Judgement(excerpt(line, policy), refused),)
    grammar = grammar_of(line)
    found = _recognised(text, grammar)
    if len(found) > 1 and len(found) > policy.max_entries_per_turn:
        found = ()
    if not found:
        found = (Found(_as_worded(text, line, grammar), kind or Kind.FACT, Reason.EXPLICIT_WRITE),)
    judgements = []
    code = grammar.code if grammar.code == "zh" else language(line)
    for one in found:
        entry = candidate(replace(one, kind=kind or one.kind, reason=Reason.EXPLICIT_WRITE), code, source)
        if entry.kind not in policy.kinds:
            judgements.append(Judgement(line, Reason.KIND_OFF))
            continue
        entry = entry if importance is None else replace(entry, importance=importance)
        judgements.append(Judgement(line, Reason.EXPLICIT_WRITE, entry))
    return tuple(judgements)


def _refused(text: str, line: str, policy: GatePolicy) -> Reason | None:
    if not line:
        return Reason.INCOMPLETE
    if len(line) > policy.max_entry_chars:
        return Reason.OVER_LIMIT
    reason = not_talk(line)
    if reason is not None:
        return reason
    if holds_secret(line):
        return Reason.SECRET
    for sentence in sentences(text):
        grammar = grammar_of(normalise(sentence))
        said = prepared(sentence, grammar)
        hard = grammar.refusals.hard(said)
        if hard in _REFUSED:
            return Reason(hard)
        if grammar.refusals.is_question(said):
            return Reason.QUESTION
    grammar = grammar_of(line)
    said = prepared(line, grammar)
    soft = grammar.refusals.soft(said)
    return (
        Reason(soft)
        if soft in _EMPTY and grammar.recognise(_as_own(grammar.unframe(said).rest, grammar)) is None
        else None
    )


def _as_own(statement: str, grammar: Grammar) -> str:
    """In the first person, so that one set of rules reads both."""
    return (rewriting_en.first_person(statement) or statement) if grammar is ENGLISH else statement


def _recognised(text: str, grammar: Grammar) -> tuple[Found, ...]:
    """What the rules find, if they find something in every clause; otherwise nothing, and the text stays whole."""
    found: list[Found] = []
    for sentence in sentences(text):
        frame = grammar.unframe(prepared(sentence, grammar))
        for clause in grammar.clauses(_as_own(frame.rest, grammar)):
            result = grammar.recognise(clause.text)
            if frame.standing:
                result = grammar.standing_request(clause.text, frame.opening)
            if not isinstance(result, tuple):
                return ()
            found += [one.as_correction() for one in result] if frame.corrects else result
    return tuple(found)


def _as_worded(text: str, line: str, grammar: Grammar) -> str:
    """The words of the caller; a first person becomes the user, so that the entry stands alone."""
    if grammar is ENGLISH and language(line) != "en":
        return line  # a language without rules: "me" is another word there
    own = grammar.unframe(prepared(text, grammar)).rest
    return grammar.as_fact(own) if own else line
