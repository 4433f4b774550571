"""The write gate (L3, L4): what of a user's turn is worth remembering, sentence by sentence, each with its reason."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import ModuleType

from memory.entry import Kind
from memory.gate import (
    frames_en,
    frames_zh,
    patterns_en,
    patterns_zh,
    refusals_en,
    refusals_zh,
    rewriting_en,
    rewriting_zh,
    subjects,
)
from memory.gate.documents import Recalled, blocks, holds_secret, not_talk
from memory.gate.found import Found, candidate
from memory.gate.frames import Frame
from memory.gate.splitting import Clause, chinese_clauses, english_clauses
from memory.policy import GatePolicy
from memory.text import language, normalise, sentences
from memory.turns import MemoryMode, NewTurn, Role, Turn
from memory.verdict import Judgement, Reason

MAX_JUDGED_CHARS = 20_000
"""Of one turn; what lies beyond is a document, and is reported as over the limit."""
MAX_SENTENCES = 120
_HAN = re.compile(r"[\u3400-\u9fff]")
_KANA = re.compile(r"[\u3040-\u30ff]")
_CURLY = str.maketrans({"’": "'", "‘": "'", "＇": "'", "`": "'"})


@dataclass(frozen=True, slots=True)
class Grammar:
    """One language's rules."""

    code: str
    refusals: ModuleType
    unframe: Callable[[str], Frame]
    clauses: Callable[[str], list[Clause]]
    recognise_whole: Callable[[str], "tuple[Found, ...] | None"]
    recognise: Callable[[str], "tuple[Found, ...] | Reason | None"]
    standing_request: Callable[[str, str], "tuple[Found, ...] | Reason"]
    as_fact: Callable[[str], str]
    stands_alone: re.Pattern[str]


ENGLISH = Grammar(
    "en",
    refusals_en,
    frames_en.unframe,
    english_clauses,
    patterns_en.recognise_whole,
    patterns_en.recognise,
    patterns_en.standing_request,
    lambda clause: rewriting_en.sentence(rewriting_en.third_person(clause)),
    re.compile(
        r"^(?!(?:it|this|that|these|those|he|she|they|him|her|them|me|everything|all of)\b)\S+(?:\s+\S+){2,}",
        re.IGNORECASE,
    ),
)
CHINESE = Grammar(
    "zh",
    refusals_zh,
    frames_zh.unframe,
    chinese_clauses,
    patterns_zh.recognise_whole,
    patterns_zh.recognise,
    patterns_zh.standing_request,
    lambda clause: rewriting_zh.third_person(clause).strip("，,。 "),
    re.compile(r"^(?!这|那|它|他|她|以上|上面|刚才).{4,}"),
)


def grammar_of(text: str) -> Grammar:
    return CHINESE if _HAN.search(text) and not _KANA.search(text) and language(text) == "zh" else ENGLISH


def prepared(text: str, grammar: Grammar) -> str:
    """One line in normal form; English with straight apostrophes and its contractions written out."""
    line = normalise(text)
    return rewriting_en.canonical(line.translate(_CURLY)) if grammar is ENGLISH else line


def excerpt(text: str, policy: GatePolicy) -> str:
    return text if len(text) <= policy.max_entry_chars else text[: policy.max_entry_chars - 1] + "…"


def judge(
    turn: Turn | NewTurn, *, policy: GatePolicy, recalled: Sequence[str] = (), previous_assistant: str | None = None
) -> tuple[Judgement, ...]:
    """One judgement for every clause of a user's turn, in order; one for the whole turn where nobody speaks for themselves.

    `recalled` are the contents of the memories that this turn's prompt held (P1), `previous_assistant` the assistant's last words
    (P3). Deterministic, linear in the length of the turn, never raises. A turn whose user says "don't remember this" keeps nothing.
    """
    text = turn.content
    if not text.strip():
        return ()
    whole = _whole_turn(turn)
    if whole is not None:
        return (Judgement(excerpt(text.strip(), policy), whole),)
    known = Recalled(recalled, previous_assistant)
    judgements: list[Judgement] = []
    count = 0
    for block, reason in blocks(text[:MAX_JUDGED_CHARS]):
        if reason is not None:
            judgements.append(Judgement(excerpt(block, policy), reason))
            continue
        for sentence in sentences(block):
            count += 1
            if count > MAX_SENTENCES:
                break
            judgements += judge_sentence(sentence, policy, known)
    if count > MAX_SENTENCES or len(text) > MAX_JUDGED_CHARS:
        judgements.append(Judgement(excerpt(text[MAX_JUDGED_CHARS:] or text, policy), Reason.OVER_LIMIT))
    if not judgements:
        judgements.append(Judgement(excerpt(text.strip(), policy), Reason.NOT_TALK))  # an empty code fence
    return _limited(_withdrawn(judgements), policy)


def _whole_turn(turn: Turn | NewTurn) -> Reason | None:
    """Why nothing of this turn is looked at, whatever it says."""
    if turn.role is Role.ASSISTANT:
        return Reason.MODEL_INFERENCE
    if turn.role is not Role.USER:
        return Reason.NOT_TALK
    if turn.memory is not MemoryMode.ON:
        return Reason.DECLINED
    return None if turn.complete else Reason.INCOMPLETE


def _withdrawn(judgements: list[Judgement]) -> list[Judgement]:
    """ "Don't save that", "/s" or "just kidding" speaks for the whole turn."""
    for reason in (Reason.DECLINED, Reason.SARCASM):
        if any(judgement.reason is reason for judgement in judgements):
            return [Judgement(j.text, reason) if j.accepted else j for j in judgements]
    return judgements


def _limited(judgements: list[Judgement], policy: GatePolicy) -> tuple[Judgement, ...]:
    kept, out = 0, []
    for judgement in judgements:
        if judgement.candidate is not None:
            if judgement.candidate.kind not in policy.kinds:
                judgement = Judgement(judgement.text, Reason.KIND_OFF)
            elif kept == policy.max_entries_per_turn:
                judgement = Judgement(judgement.text, Reason.OVER_LIMIT)
            else:
                kept += 1
        out.append(judgement)
    return tuple(out)


def judge_sentence(sentence: str, policy: GatePolicy, known: Recalled) -> list[Judgement]:
    """The judgements on one sentence of talk."""
    if len(sentence) > policy.max_entry_chars:
        return [Judgement(excerpt(sentence, policy), Reason.OVER_LIMIT)]
    line = normalise(sentence)
    grammar = grammar_of(line)
    line = prepared(line, grammar)
    reason = _kept_out(sentence, line, grammar, known)
    if reason is not None:
        return [Judgement(sentence, reason)]
    frame = grammar.unframe(line)
    whole = grammar.recognise_whole(frame.rest)
    if (
        whole is not None
        and not grammar.refusals.is_question(frame.rest)
        and not grammar.refusals.HYPOTHETICAL.search(frame.rest)
    ):
        return [Judgement(sentence, found.reason, candidate(found, grammar.code)) for found in whole]
    clauses = grammar.clauses(frame.rest) or [Clause(frame.rest, frame.rest)]
    asked = [grammar.refusals.is_question(clause.text) for clause in clauses]
    if frame.explicit and frame.task:
        return [Judgement(sentence, Reason.REQUEST)]
    supposed = [
        bool(grammar.refusals.HYPOTHETICAL.search(clause.text)) and not grammar.refusals.STANDING.search(line)
        for clause in clauses
    ]
    if any(guess and not question for guess, question in zip(supposed, asked, strict=True)):
        return [Judgement(sentence, Reason.HYPOTHETICAL)]
    results = [
        (clause, (Reason.HYPOTHETICAL if guess else Reason.QUESTION) if question else _clause(clause, frame, grammar))
        for clause, question, guess in zip(clauses, asked, supposed, strict=True)
    ]
    if frame.explicit and not any(isinstance(result, tuple) for _, result in results) and not any(asked):
        results = [(Clause(frame.rest, sentence), _as_fact(frame.rest, grammar))]
    only = len(results) == 1
    judgements: list[Judgement] = []
    for clause, result in results:
        text = sentence if only else clause.said
        if isinstance(result, Reason):
            judgements.append(Judgement(text, result))
        else:
            judgements += [
                Judgement(text, found.reason, candidate(_resolved(found, known), grammar.code)) for found in result
            ]
    return judgements


def _kept_out(sentence: str, line: str, grammar: Grammar, known: Recalled) -> Reason | None:
    """Why the whole sentence stays out, before any rule looks for what it states."""
    if known.covers(line):
        return Reason.RECALLED
    if known.said_by_assistant(sentence):
        return Reason.MODEL_INFERENCE
    machine = not_talk(sentence)
    if machine is not None:
        return Reason.SARCASM if grammar.refusals.SARCASM.search(line) else machine
    if holds_secret(line):
        return Reason.SECRET
    reason: Reason | None = grammar.refusals.hard(line)
    return reason


def _clause(clause: Clause, frame: Frame, grammar: Grammar) -> tuple[Found, ...] | Reason:
    found = grammar.recognise(clause.text)
    if frame.standing and (found is None or isinstance(found, Reason) or all(f.kind is Kind.CONSTRAINT for f in found)):
        asked = grammar.standing_request(clause.text, frame.opening)
        if isinstance(asked, tuple) or found is None:
            return asked
    if isinstance(found, Reason):
        return found
    if found is None:
        return grammar.refusals.soft(clause.text) if not frame.explicit else _explicit_rest(clause, frame, grammar)
    lasting = frame.explicit or all(f.kind is Kind.TASK_RESULT or f.corrects for f in found)
    if not lasting and grammar.refusals.is_transient(clause.text):
        return Reason.TRANSIENT
    if frame.corrects:
        return tuple(f.as_correction() for f in found)
    return tuple(f.as_request() for f in found) if frame.explicit else found


def _explicit_rest(clause: Clause, frame: Frame, grammar: Grammar) -> tuple[Found, ...] | Reason:
    """A clause beside recognised ones in "remember that…": kept as a fact only if it has its own subject."""
    return _as_fact(clause.text, grammar) if clause.text == frame.rest else Reason.UNRECOGNISED


def _as_fact(statement: str, grammar: Grammar) -> tuple[Found, ...] | Reason:
    """The user asked for it to be kept, so it is, if it says something by itself."""
    if not grammar.stands_alone.match(statement):
        return Reason.INCOMPLETE
    return (Found(grammar.as_fact(statement), Kind.FACT, Reason.EXPLICIT_REQUEST),)


def _resolved(found: Found, known: Recalled) -> Found:
    """ "My current favourite is Messi" speaks of the one favourite that was just recalled (P7)."""
    if found.attribute.subject != "favourite":
        return found
    category = known.favourite_category()
    if category is None:
        return found
    attribute = replace(found.attribute, subject=subjects.favourite(category, "").subject)
    return replace(found, attribute=attribute)
