"""What was said just before an entry: which turns, and how much of them."""

from datetime import UTC, datetime

import pytest

from memory.ids import TurnId
from memory.left_context import CONTEXT_CHARS, context_text, context_turns
from memory.turns import MemoryMode, Role, Turn

AT = datetime(2026, 3, 2, tzinfo=UTC)


def turn(seq: int, content: str, role: Role = Role.USER, **options: object) -> Turn:
    return Turn(TurnId(f"t{seq}"), seq, role, content, tokens=1, at=AT, **options)  # type: ignore[arg-type]


TALK = [turn(1, "我们去哪里吃饭？"), turn(2, "How about the noodle place?", Role.ASSISTANT), turn(3, "好，就那家。")]


@pytest.mark.parametrize(
    ("turns", "seq", "chosen"),
    [
        (TALK, 3, ["t1", "t2"]),  # what came before, oldest first
        (TALK, 1, []),  # the first turn has no context
        ([], 5, []),
        (list(reversed(TALK)), 3, ["t1", "t2"]),  # the order of reading does not matter, seq does
        ([turn(1, "a"), turn(2, "{}", Role.TOOL), turn(3, "b")], 3, ["t1"]),  # tool output is no talk
        ([turn(1, "a"), turn(2, "rules", Role.SYSTEM), turn(3, "b")], 3, ["t1"]),
        (
            [turn(1, "a"), turn(2, "half a", Role.ASSISTANT, complete=False), turn(3, "b")],
            3,
            ["t1"],
        ),  # a stopped stream
        ([turn(1, "私密", memory=MemoryMode.OFF), turn(2, "b")], 2, []),  # said with memory off
        ([turn(1, "私密", memory=MemoryMode.READ), turn(2, "b")], 2, []),
        ([turn(1, "   "), turn(2, "b")], 2, []),
        ([turn(1, "x" * 500), turn(2, "y" * CONTEXT_CHARS), turn(3, "b")], 3, ["t2"]),  # enough is enough
    ],
)
def test_context_turns(turns: list[Turn], seq: int, chosen: list[str]) -> None:
    assert [one.id for one in context_turns(turns, seq)] == chosen


@pytest.mark.parametrize(
    ("turns", "limit", "text"),
    [
        (TALK[:2], 400, "我们去哪里吃饭？\nHow about the noodle place?"),
        (TALK[:2], 6, "place?"),  # the end is what an entry answers to
        ([], 400, ""),
    ],
)
def test_context_text(turns: list[Turn], limit: int, text: str) -> None:
    assert context_text(turns, limit) == text
