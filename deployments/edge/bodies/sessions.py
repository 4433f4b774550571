"""Bodies of sessions, turns and state."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema, model_validator

from deployments.edge.bodies.fields import (
    MAX_CONTENT,
    Answer,
    Body,
    Count,
    Cursor,
    Flag,
    Identifier,
    Language,
    Limit,
    Metadata,
    Moment,
    Name,
    StateMap,
    TimeZone,
    wrong,
)
from deployments.edge.idempotency import Ids
from memory.ids import TurnId
from memory.turns import MemoryMode, NewTurn, Role, ToolCall

MAX_TURNS = 5000
MAX_PARTS = 1000
MAX_TOOL_CALLS = 128

_PART_NAMES = {
    "image_url": "image",
    "input_image": "image",
    "image": "image",
    "input_audio": "audio",
    "audio": "audio",
    "video_url": "video",
    "input_file": "file",
    "file": "file",
}
_TEXT_PARTS = {"text", "input_text", "output_text"}
_PART_KIND = re.compile(r"[A-Za-z0-9_-]{1,32}", re.ASCII)


def _joined(value: Any) -> Any:
    """A text as it is; of a list of parts the texts, in order and one a line, and a short note for each other part."""
    if not isinstance(value, list):
        if value is not None and not isinstance(value, str):
            raise wrong("must be a text or a list of parts")
        if isinstance(value, str) and len(value) > MAX_CONTENT:
            raise _too_long()
        return value
    if len(value) > MAX_PARTS:
        raise wrong(f"must have at most {MAX_PARTS} parts")
    joined = "\n".join(_part(part, place) for place, part in enumerate(value))
    if len(joined) > MAX_CONTENT:
        raise _too_long()
    return joined


def _too_long() -> Exception:
    return wrong(f"must have at most {MAX_CONTENT} characters", kind="text_too_large")


def _part(part: Any, place: int) -> str:
    if not isinstance(part, Mapping):
        raise wrong("must be an object with a `type`", at=str(place))
    kind = part.get("type")
    if not isinstance(kind, str) or not _PART_KIND.fullmatch(kind):
        raise wrong("must name the kind of the part, such as text or image_url", at=f"{place}.type")
    if kind not in _TEXT_PARTS:
        return f"[{_PART_NAMES.get(kind, kind)}]"
    text = part.get("text")
    if not isinstance(text, str):
        raise wrong("must be a text", at=f"{place}.text")
    return text


TurnContent = Annotated[
    str | None,
    BeforeValidator(_joined),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "maxLength": MAX_CONTENT},
                {
                    "type": "array",
                    "items": {"type": "object", "required": ["type"], "properties": {"type": {"type": "string"}}},
                },
                {"type": "null"},
            ],
            "description": "A text, or a list of parts. Texts are joined in order; of other parts only their kind is kept.",
        }
    ),
]
ToolCallId = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=256, pattern=r"^[\x21-\x7e]+$")]


class FunctionBody(Body):
    name: Name
    arguments: Annotated[str, StringConstraints(strict=True, max_length=MAX_CONTENT)] = Field(
        description="The JSON text as the model wrote it."
    )


class ToolCallBody(Body):
    id: ToolCallId
    type: Literal["function"] = "function"
    function: FunctionBody
    index: int | None = Field(default=None, description="As streams have it; ignored.")


class TurnFields(Body):
    """What is said in a turn."""

    role: Role
    content: TurnContent = None
    at: Moment | None = None
    name: Name | None = None
    tool_calls: list[ToolCallBody] | None = Field(default=None, max_length=MAX_TOOL_CALLS)
    tool_call_id: ToolCallId | None = None
    complete: Flag = True

    @model_validator(mode="after")
    def _fits_its_role(self) -> "TurnFields":
        blank = not (self.content or "").strip()
        if self.tool_calls and self.role is not Role.ASSISTANT:
            raise wrong("belongs to an assistant's turn", at="tool_calls")
        if len({call.id for call in self.tool_calls or ()}) < len(self.tool_calls or ()):
            raise wrong("each call needs an id of its own", at="tool_calls")
        if self.role is Role.TOOL:
            if self.tool_call_id is None:
                raise wrong("is required in a tool's turn: which call does it answer?", at="tool_call_id")
            if self.content is None:
                raise wrong("is required (an empty text will do)", at="content")
        elif self.tool_call_id is not None:
            raise wrong("belongs to a tool's turn", at="tool_call_id")
        elif blank and not self.tool_calls:
            raise wrong("must not be empty", at="content")
        return self

    def new_turn(self, turn_id: str, now: datetime, memory: MemoryMode) -> NewTurn:
        """As memory/ has it. Tokens are not counted here: `tokens` is 0 until the flow has done so."""
        return NewTurn(
            id=TurnId(turn_id),
            role=self.role,
            content=self.content or "",
            tokens=0,
            at=self.at or now,
            name=self.name,
            tool_calls=tuple(
                ToolCall(call.id, call.function.name, call.function.arguments) for call in self.tool_calls or ()
            ),
            tool_call_id=self.tool_call_id,
            complete=self.complete,
            memory=memory,
        )


class TurnBody(TurnFields):
    id: Identifier | None = None


class AppendTurns(Body):
    turns: list[TurnBody] = Field(min_length=1, max_length=MAX_TURNS)
    memory: MemoryMode = MemoryMode.ON

    @model_validator(mode="after")
    def _own_ids(self) -> "AppendTurns":
        seen: set[str] = set()
        for place, turn in enumerate(self.turns):
            if turn.id is not None and turn.id in seen:
                raise wrong("is given to two turns of this call", at=f"turns.{place}.id")
            seen.add(turn.id or "")
        return self

    def new_turns(self, ids: Ids) -> list[NewTurn]:
        return [
            turn.new_turn(turn.id or ids.make("t", place), ids.now, self.memory)
            for place, turn in enumerate(self.turns)
        ]


class ReplaceTurn(TurnFields):
    """The turn as it now is. It keeps its id and place."""

    memory: MemoryMode = MemoryMode.ON


class OpenSession(Body):
    user_id: Identifier
    session_id: Identifier | None = None
    time_zone: TimeZone | None = None
    language: Language | None = None
    metadata: Metadata = Field(default_factory=dict)


class PatchState(Body):
    """A JSON merge patch: a null takes away, an object is merged, anything else replaces. `version` is the one that it was made for."""

    intent: Annotated[str, StringConstraints(strict=True, max_length=1000)] | None = None
    slots: StateMap | None = None
    missing: list[Name] | None = Field(default=None, max_length=200)
    results: StateMap | None = None
    version: Count | None = None

    @model_validator(mode="after")
    def _says_something(self) -> "PatchState":
        if not self.patch():
            raise wrong("give at least one of `intent`, `slots`, `missing`, `results`")
        return self

    def patch(self) -> dict[str, Any]:
        return self.model_dump(exclude_unset=True, exclude={"version"})


class SessionsQuery(Body):
    user_id: Identifier | None = None
    limit: Limit = 100
    cursor: Cursor | None = None


class PageQuery(Body):
    limit: Limit = 100
    cursor: Cursor | None = None


# --- answers ----------------------------------------------------------------------------------------------------------


class OpenedSession(Answer):
    session_id: str
    user_id: str
    token: str
    expires_at: datetime = Field(description="When the session ends unless it is used before.")
    token_expires_at: datetime


class SessionAnswer(Answer):
    session_id: str
    user_id: str
    created_at: datetime
    expires_at: datetime
    turn_count: int
    time_zone: str | None
    language: str | None
    metadata: dict[str, Any]


class SessionPage(Answer):
    items: list[SessionAnswer]
    next_cursor: str | None


class FunctionAnswer(Answer):
    name: str
    arguments: str


class ToolCallAnswer(Answer):
    id: str
    type: Literal["function"]
    function: FunctionAnswer


class TurnAnswer(Answer):
    id: str
    seq: int
    role: Role
    content: str
    tokens: int
    at: datetime
    complete: bool
    memory: MemoryMode
    name: str | None = None
    tool_calls: list[ToolCallAnswer] | None = None
    tool_call_id: str | None = None


class TurnPage(Answer):
    items: list[TurnAnswer]
    next_cursor: str | None


class VerdictAnswer(Answer):
    candidate: str
    kind: str | None
    verdict: str
    reason: str
    memory_id: str | None
    superseded_id: str | None


class StoredTurn(Answer):
    id: str
    seq: int
    tokens: int


class AppendedTurns(Answer):
    turns: list[StoredTurn]
    verdicts: list[VerdictAnswer]
    degraded: list[str]


class RetractedMemories(Answer):
    deleted: list[str]
    restored: list[str]
    changed: list[str]


class ChangedTurn(Answer):
    turn: TurnAnswer | None
    removed: list[str]
    memories: RetractedMemories
    verdicts: list[VerdictAnswer]
    degraded: list[str]


class StateAnswer(Answer):
    version: int
    intent: str | None
    slots: dict[str, Any]
    missing: list[str]
    results: dict[str, Any]
