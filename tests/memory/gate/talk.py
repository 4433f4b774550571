"""A user's turn and what the gate makes of it."""

from datetime import UTC, datetime

from memory.entry import Candidate
from memory.gate import judge
from memory.ids import TurnId
from memory.policy import GatePolicy
from memory.turns import MemoryMode, NewTurn, Role
from memory.verdict import Judgement, Reason


def turn(text: str, role: str = "user", *, complete: bool = True, memory: MemoryMode = MemoryMode.ON) -> NewTurn:
    at = datetime(2026, 3, 2, tzinfo=UTC)
    return NewTurn(TurnId("t1"), Role(role), text, 0, at, complete=complete, memory=memory)


def judged(text: str, role: str = "user", **given) -> tuple[Judgement, ...]:
    return judge(turn(text, role), policy=given.pop("policy", GatePolicy()), **given)


def entries(text: str, **given) -> list[Candidate]:
    return [judgement.candidate for judgement in judged(text, **given) if judgement.candidate]


def contents(text: str, **given) -> list[str]:
    return [candidate.content for candidate in entries(text, **given)]


def reasons(text: str, role: str = "user", **given) -> list[Reason]:
    return [judgement.reason for judgement in judged(text, role, **given)]
