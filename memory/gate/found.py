"""What a rule found in one clause, before it becomes a candidate."""

from dataclasses import dataclass, field, replace

from memory.entry import Candidate, Kind, Source
from memory.verdict import Reason

_IMPORTANCE = {
    Kind.CONSTRAINT: 0.9,
    Kind.PROFILE: 0.7,
    Kind.LESSON: 0.7,
    Kind.PREFERENCE: 0.6,
    Kind.FACT: 0.5,
    Kind.TASK_RESULT: 0.5,
    Kind.EPISODE: 0.4,
}
_EXPLICIT_BONUS = 0.2


@dataclass(frozen=True, slots=True)
class Attribute:
    """The attribute that a statement sets, as `Candidate` has it; all None where it sets none."""

    subject: str | None = None
    value: str | None = None
    exclusive: bool = False
    retracts: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """One atomic statement: `content` stands alone, in the third person, in the user's language."""

    content: str
    kind: Kind
    reason: Reason
    attribute: Attribute = field(default_factory=Attribute)
    corrects: bool = False
    entities: tuple[str, ...] = ()

    def as_correction(self) -> "Found":
        return replace(self, reason=Reason.CORRECTION, corrects=True)

    def as_request(self) -> "Found":
        return replace(self, reason=Reason.EXPLICIT_REQUEST)


def importance(kind: Kind, *, explicit: bool) -> float:
    """In (0, 1]: what must never be broken counts most, and what the user asked us to keep counts more."""
    return round(min(_IMPORTANCE[kind] + (_EXPLICIT_BONUS if explicit else 0.0), 1.0), 2)


def candidate(found: Found, language: str, source: Source = Source.USER) -> Candidate:
    attribute = found.attribute
    return Candidate(
        content=found.content,
        kind=found.kind,
        source=source,
        language=language,
        importance=importance(found.kind, explicit=found.reason in (Reason.EXPLICIT_REQUEST, Reason.EXPLICIT_WRITE)),
        subject=attribute.subject,
        value=attribute.value,
        exclusive=attribute.exclusive,
        corrects=found.corrects,
        retracts=attribute.retracts,
        entities=found.entities,
    )
