"""Turns, sessions and state as bytes: compact JSON, times in whole microseconds of UTC. What a newer version adds is passed over."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from memory.errors import InvalidInput, Unavailable
from memory.ids import SessionId, TurnId, UserId
from memory.turns import MemoryMode, NewTurn, Role, Session, TaskState, ToolCall, Turn

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(at: datetime, field: str) -> int:
    """Microseconds since 1970. A time without an offset could be anybody's: InvalidInput."""
    if at.tzinfo is None:
        raise InvalidInput(field, "give the time with an offset, such as 2026-03-01T09:30:00+08:00")
    return (at - _EPOCH) // _MICROSECOND


def from_micros(value: int) -> datetime:
    return _EPOCH + value * _MICROSECOND


def from_millis(value: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=value)


def dumped(value: Any, field: str) -> bytes:
    """JSON, or InvalidInput for what JSON cannot hold (lone surrogates, integers over 64 bits, keys that are no texts)."""
    try:
        return orjson.dumps(value)
    except TypeError:
        raise InvalidInput(
            field, "use texts without lone surrogates, 64-bit numbers, lists and objects with text keys"
        ) from None


def encode_turn(turn: NewTurn, field: str) -> bytes:
    """The body of a turn; its id and seq are kept beside it. What has its usual value is left out."""
    body: dict[str, Any] = {
        "r": turn.role.value,
        "c": turn.content,
        "t": turn.tokens,
        "a": micros(turn.at, f"{field}.at"),
    }
    if turn.name is not None:
        body["n"] = turn.name
    if turn.tool_calls:
        body["k"] = [[call.id, call.name, call.arguments] for call in turn.tool_calls]
    if turn.tool_call_id is not None:
        body["i"] = turn.tool_call_id
    if not turn.complete:
        body["p"] = 1
    if turn.memory is not MemoryMode.ON:
        body["m"] = turn.memory.value
    return dumped(body, f"{field}.content")


def decode_turn(turn_id: bytes, seq: int, body: bytes) -> Turn:
    return _turn(turn_id.decode(), seq, _loaded(body))


def _turn(turn_id: str, seq: int, held: Any) -> Turn:
    try:
        return Turn(
            id=TurnId(turn_id),
            seq=seq,
            role=Role(held["r"]),
            content=held["c"],
            tokens=held["t"],
            at=from_micros(held["a"]),
            name=held.get("n"),
            tool_calls=tuple(ToolCall(*call[:3]) for call in held.get("k", ())),
            tool_call_id=held.get("i"),
            complete="p" not in held,
            memory=MemoryMode(held["m"]) if "m" in held else MemoryMode.ON,
        )
    except (KeyError, ValueError, TypeError):
        raise Unavailable("sessions") from None


def accepted(turn: NewTurn, turn_id: TurnId, seq: int) -> Turn:
    """What `decode_turn` will give for `turn` later on, without the way through bytes."""
    return Turn(
        id=turn_id,
        seq=seq,
        role=turn.role,
        content=turn.content,
        tokens=turn.tokens,
        at=turn.at.astimezone(UTC),
        name=turn.name,
        tool_calls=turn.tool_calls,
        tool_call_id=turn.tool_call_id,
        complete=turn.complete,
        memory=turn.memory,
    )


def decode_turns(reply: Sequence[Any]) -> list[Turn]:
    """From {ids and seqs alternating, bodies}."""
    places, bodies = reply
    return [
        decode_turn(turn_id, int(seq), body)
        for turn_id, seq, body in zip(places[::2], places[1::2], bodies, strict=True)
    ]


def decode_transcript(reply: Sequence[bytes]) -> list[Turn]:
    """From {ids, seqs, bodies}, each as one text."""
    ids, seqs, bodies = reply
    return [
        _turn(turn_id, int(seq), held)
        for turn_id, seq, held in zip(ids.decode().split(), seqs.split(), _loaded(bodies), strict=True)
    ]


def decode_session(session_id: SessionId, user_id: UserId, reply: Sequence[Any]) -> Session:
    """From {expires (ms), turns, created (us), time zone, language, metadata, ttl}."""
    expires, turns, created, time_zone, language, metadata = reply[:6]
    return Session(
        id=session_id,
        user_id=user_id,
        created_at=from_micros(int(created)),
        expires_at=from_millis(int(expires)),
        turn_count=int(turns),
        time_zone=time_zone.decode() or None,
        language=language.decode() or None,
        metadata=_loaded(metadata) if metadata else {},
    )


def encode_state(state: TaskState) -> bytes:
    return dumped(
        {
            "intent": state.intent,
            "slots": _plain(state.slots),
            "missing": list(state.missing),
            "results": _plain(state.results),
        },
        "state",
    )


def decode_state(body: bytes | None, version: bytes | None) -> TaskState:
    if body is None:
        return TaskState()
    held = _loaded(body)
    return TaskState(
        version=int(version or 0),
        intent=held.get("intent"),
        slots=held.get("slots") or {},
        missing=tuple(held.get("missing") or ()),
        results=held.get("results") or {},
    )


def encode_metadata(metadata: Mapping[str, Any]) -> bytes:
    return dumped(_plain(metadata), "metadata") if metadata else b""


def decode_ids(body: bytes | None) -> list[str]:
    return _loaded(body) if body else []


def _plain(mapping: Mapping[str, Any]) -> dict[str, Any]:
    return dict(mapping)


def _loaded(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        raise Unavailable("sessions") from None
