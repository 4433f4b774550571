"""The shape of a chat request, and what it costs beyond its texts: a provider's template puts tokens around each message."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory.turns import Turn

Count = Callable[[str], int]
"""How many tokens a text is for the target model."""
Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ChatOverhead:
    """Tokens added per message, per `name`, once for the reply's opening, once for any tools at all, and per tool.

    OpenAI documents 3 a message (beside the role's own tokens), 1 a name and 3 to open the reply. How it writes tool definitions
    for the model is not documented; published measurements find 7 to 10 a function and 12 once beside names, descriptions and
    types, so the JSON text with these additions is not less than what is billed. Templates of open models put up to 4 tokens
    around a message, and at begin and reply together 5 beside the word "assistant", which is nine bytes and so nine tokens at most.
    """

    message: int = 3
    name: int = 1
    reply: int = 3
    tools: int = 12
    tool: int = 10


OPENAI_CHAT = ChatOverhead()
OPEN_MODEL_CHAT = ChatOverhead(message=4, name=4, reply=14, tools=32, tool=10)


def tools_tokens(tools: Sequence[Mapping[str, Any]], count: Count, overhead: ChatOverhead) -> int:
    """An upper estimate of what a provider bills for tool definitions: their JSON text and a constant for each (see ChatOverhead)."""
    if not tools:
        return 0
    return overhead.tools + sum(overhead.tool + count(as_json(tool)) for tool in tools)


def message_tokens(message: Message, count: Count, overhead: ChatOverhead) -> int:
    """Tokens of one chat message with everything in it; tool calls count as their JSON text."""
    tokens = overhead.message + count(message["role"]) + count(message["content"] or "")
    if "name" in message:
        tokens += overhead.name + count(message["name"])
    if "tool_calls" in message:
        tokens += sum(overhead.message + count(as_json(call)) for call in message["tool_calls"])
    if "tool_call_id" in message:
        tokens += overhead.name + count(message["tool_call_id"])
    return tokens


def turn_message(turn: Turn) -> Message:
    """A turn in the shape that chat APIs take."""
    message: Message = {"role": turn.role.value, "content": turn.content}
    if turn.name:
        message["name"] = turn.name
    if turn.tool_calls:
        message["content"] = turn.content or None
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in turn.tool_calls
        ]
    if turn.tool_call_id is not None:
        message["tool_call_id"] = turn.tool_call_id
    return message


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
