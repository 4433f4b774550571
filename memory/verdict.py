"""Verdicts: what was decided about a sentence, and why. Every candidate gets one (L3); a rejection is never silent (P4)."""

from dataclasses import dataclass
from enum import StrEnum

from memory.entry import Candidate, Kind
from memory.ids import MemoryId


class Decision(StrEnum):
    STORED = "stored"
    CONFIRMED = "confirmed"
    SUPERSEDED = "superseded"  # stored, and an older entry was retired by it
    WAITING = "waiting"
    REJECTED = "rejected"


class Reason(StrEnum):
    """Why the gate let a sentence in or kept it out. Stable names: they appear in answers and audits."""

    EXPLICIT_REQUEST = "explicit_request"  # "remember…", "记住…", "以后默认…"
    PREFERENCE = "preference"
    CONSTRAINT = "constraint"
    SELF_DESCRIPTION = "self_description"
    CORRECTION = "correction"
    OUTCOME = "outcome"
    EXPLICIT_WRITE = "explicit_write"  # POST /v1/memories
    VERBATIM = "verbatim"  # imported past the gate, by a key that may

    SMALL_TALK = "small_talk"
    QUESTION = "question"
    REQUEST = "request"  # a command for this turn only ("translate this")
    MODEL_INFERENCE = "model_inference"  # assistant's words (L4, P3)
    RECALLED = "recalled"  # our own text, coming back (P1)
    QUOTATION = "quotation"
    HYPOTHETICAL = "hypothetical"
    THIRD_PARTY = "third_party"
    SARCASM = "sarcasm"
    TRANSIENT = "transient"  # true now, of no use later ("I'm hungry", "今天有点累")
    INSTRUCTION = "instruction"  # addresses the model's rules, not the user's life (P6, P2)
    INCOMPLETE = "incomplete"  # a stopped stream, a fragment without its subject
    NOT_TALK = "not_talk"  # tool output, code, a log, a document
    DECLINED = "declined"  # "don't remember this", "别记"
    SECRET = "secret"  # noqa: S105 - passwords, PINs, keys: never kept, even when asked to
    KIND_OFF = "kind_off"  # the tenant's policy stores no memories of this kind
    OVER_LIMIT = "over_limit"  # too long to be one atomic entry, or too many in one turn
    UNRECOGNISED = "unrecognised"  # no rule speaks for it: rather miss than pollute


@dataclass(frozen=True, slots=True)
class Judgement:
    """The gate's word on one sentence. `candidate` is there exactly when it was accepted."""

    text: str
    reason: Reason
    candidate: Candidate | None = None

    @property
    def accepted(self) -> bool:
        return self.candidate is not None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a sentence after gate and merge; what the API answers."""

    candidate: str
    decision: Decision
    reason: str
    kind: Kind | None = None
    memory_id: MemoryId | None = None
    superseded_id: MemoryId | None = None
