"""Left context: what was said just before an entry, as its encoder sees it, and which turns that was.

Design: an entry is encoded together with a few hundred characters of what was said before it in its session. The text is
read when it is encoded and never stored; the entry keeps the turns' ids, so that a turn that is erased takes its share of
the context with it.
"""

from collections.abc import Sequence

from memory.turns import Role, Turn

CONTEXT_CHARS = 400
_TALK = (Role.USER, Role.ASSISTANT)


def context_turns(turns: Sequence[Turn], seq: int, limit: int = CONTEXT_CHARS) -> tuple[Turn, ...]:
    """The turns of talk just before turn `seq`, oldest first: as many as it takes to fill `limit` characters.

    Tool output, system text, stopped streams and turns with `memory: off` give no context.
    """
    chosen: list[Turn] = []
    room = limit
    for turn in sorted((t for t in turns if t.seq < seq), key=lambda t: -t.seq):
        if room <= 0:
            break
        if turn.role not in _TALK or not turn.complete or turn.memory != "on" or not turn.content.strip():
            continue
        chosen.append(turn)
        room -= len(turn.content)
    return tuple(reversed(chosen))


def context_text(turns: Sequence[Turn], limit: int = CONTEXT_CHARS) -> str:
    """The last `limit` characters of the turns' texts, one a line."""
    return "\n".join(turn.content.strip() for turn in turns)[-limit:]
