"""Which recent turns may go into a prompt, in which order of preference, and which must stay together (W3, P32)."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from memory.ids import TurnId
from memory.policy import PromptPolicy, Window
from memory.turns import Role, Turn

ALWAYS_RECENT = 3
"""C's innermost layer: the last three are preferred to everything that is older, and to the summary of it."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """What is sent whole or not at all: one turn, or an assistant's tool calls with all their results."""

    turns: tuple[Turn, ...]


def exchanges(turns: Sequence[Turn]) -> tuple[list[Exchange], list[Turn]]:
    """`turns` (oldest first) as exchanges, and the turns that no provider would accept.

    Those are: a call of which some result is missing, with the results that are there; a result without its call just
    before it, or one result too many; a turn that says nothing (a stream that was stopped before its first word).
    """
    whole: list[Exchange] = []
    refused: list[Turn] = []
    position = 0
    while position < len(turns):
        turn = turns[position]
        position += 1
        if turn.role is Role.ASSISTANT and turn.tool_calls:
            results, orphans = _results(turn, turns[position:])
            position += len(results) + len(orphans)
            refused += orphans
            if _answered(turn, results):
                whole.append(Exchange((turn, *results)))
            else:
                refused += (turn, *results)
        elif turn.role is Role.TOOL or not turn.content.strip():
            refused.append(turn)
        else:
            whole.append(Exchange((turn,)))
    return whole, refused


def _results(call: Turn, following: Sequence[Turn]) -> tuple[list[Turn], list[Turn]]:
    """The results directly after `call`, and the tool turns between them that answer none of its calls, or one again."""
    waiting = {tool_call.id for tool_call in call.tool_calls}
    results: list[Turn] = []
    orphans: list[Turn] = []
    for turn in following:
        if turn.role is not Role.TOOL:
            break
        if turn.tool_call_id in waiting:
            waiting.discard(turn.tool_call_id)
            results.append(turn)
        else:
            orphans.append(turn)
    return results, orphans


def _answered(call: Turn, results: Sequence[Turn]) -> bool:
    # as many results as calls: two calls with one id can never both be answered
    return len(results) == len(call.tool_calls)


def preference(candidates: Sequence[Exchange], policy: PromptPolicy, important: Collection[TurnId]) -> list[Exchange]:
    """The exchanges that the window lets in, the one to keep first of all first.

    Newest first. LAST_TURNS lets in the newest exchanges until they hold `policy.last_turns` turns; IMPORTANCE prefers, after the
    last three, those with a turn in `important` (explicit requests to remember, constraints, preferences) to newer small talk.
    """
    newest_first = list(reversed(candidates))
    if policy.window is Window.LAST_TURNS:
        return list(_up_to(newest_first, policy.last_turns))
    if policy.window is Window.IMPORTANCE:
        older = newest_first[ALWAYS_RECENT:]
        # a stable sort: within each of the two groups the newest stays first
        older.sort(key=lambda exchange: not any(turn.id in important for turn in exchange.turns))
        return newest_first[:ALWAYS_RECENT] + older
    return newest_first


def _up_to(newest_first: Sequence[Exchange], turns: int) -> Iterator[Exchange]:
    held = 0
    for exchange in newest_first:
        if held >= turns:
            return
        held += len(exchange.turns)
        yield exchange
