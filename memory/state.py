"""Task state (T1): a JSON merge patch (RFC 7396) on intent, slots, missing and results, with limits.

What a merge patch says: an object is merged key by key, null takes a key away, anything else (lists too) replaces what was there.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from memory.errors import InvalidInput, TooLarge
from memory.turns import TaskState

MAX_BYTES = 65_536
"""Of the whole state as JSON: it is read with every turn."""
MAX_DEPTH = 8
MAX_KEY_CHARS = 128
MAX_INTENT_CHARS = 500
MAX_MISSING = 100
MAX_INTEGER = 2**63 - 1
"""Stores and other languages read no wider integer; an order number that long is a string."""

_KEYS = ("intent", "slots", "missing", "results")


def patch_state(state: TaskState, patch: Mapping[str, Any]) -> TaskState:
    """`state` with `patch` merged in; its version stays (the store counts it up when it accepts the new state).

    InvalidInput names the path of the value at fault ("slots.order.date"); TooLarge where the result is over MAX_BYTES.
    """
    if not isinstance(patch, Mapping):
        raise InvalidInput("state", "send a JSON object with any of intent, slots, missing, results")
    for key in patch:
        if key not in _KEYS:
            raise InvalidInput(str(key)[:MAX_KEY_CHARS], f"unknown key; use {', '.join(_KEYS)}")
    for key in ("slots", "results"):
        if key in patch:
            _check(patch[key], key, 1)
    patched = replace(
        state,
        intent=_intent(patch["intent"]) if "intent" in patch else state.intent,
        slots=_merged_object(state.slots, patch, "slots"),
        missing=_missing(patch["missing"]) if "missing" in patch else state.missing,
        results=_merged_object(state.results, patch, "results"),
    )
    document = [patched.intent, patched.slots, patched.missing, patched.results]
    if len(json.dumps(document, ensure_ascii=False).encode()) > MAX_BYTES:
        raise TooLarge(
            "state",
            f"the whole state may have {MAX_BYTES} bytes as JSON; keep long results elsewhere and refer to them",
        )
    return patched


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7396, section 2. Neither argument is changed."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def _merged_object(current: Mapping[str, Any], patch: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    if key not in patch:
        return current
    if patch[key] is None:
        return {}
    if not isinstance(patch[key], Mapping):
        raise InvalidInput(key, "send a JSON object, or null to empty it")
    merged: Mapping[str, Any] = merge_patch(current, patch[key])
    return merged


def _intent(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_INTENT_CHARS:
        raise InvalidInput("intent", f"send a text of 1 to {MAX_INTENT_CHARS} characters, or null")
    return _text(value, "intent")


def _missing(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or len(value) > MAX_MISSING:
        raise InvalidInput("missing", f"send a list of at most {MAX_MISSING} names, or null")
    for position, name in enumerate(value):
        if not isinstance(name, str) or not 0 < len(name) <= MAX_KEY_CHARS:
            raise InvalidInput(f"missing.{position}", f"send a text of 1 to {MAX_KEY_CHARS} characters")
        _text(name, f"missing.{position}")
    return tuple(value)


def _check(value: Any, path: str, depth: int) -> None:
    """Only what JSON can say and every store can keep. Depth is bounded before anything recurses deeper."""
    if depth > MAX_DEPTH:
        raise InvalidInput(path, f"nest at most {MAX_DEPTH} levels")
    match value:
        case None | bool():
            return
        case str():
            _text(value, path)
        case int():
            if abs(value) > MAX_INTEGER:
                raise InvalidInput(path, "send integers beyond 64 bits as text")
        case float():
            if not math.isfinite(value):
                raise InvalidInput(path, "send a finite number")
        case Mapping():
            for key, item in value.items():
                if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY_CHARS:
                    raise InvalidInput(path, f"use keys of 1 to {MAX_KEY_CHARS} characters")
                _text(key, path)
                _check(item, f"{path}.{key}", depth + 1)
        case list() | tuple():
            for position, item in enumerate(value):
                _check(item, f"{path}.{position}", depth + 1)
        case _:
            raise InvalidInput(path, "send JSON values only")


def _text(value: str, path: str) -> str:
    if "\x00" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidInput(path, "remove NUL characters and lone surrogates")
    return value
