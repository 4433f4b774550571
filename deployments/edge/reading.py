"""Reading a request: UTF-8, one JSON document, nothing ambiguous in it. What passes here is safe to store and to answer.

Stricter than JSON: no key twice in one object, no NaN, numbers that fit 64 bits, a bounded depth, no NUL, lone surrogate or other
control character (tab and line breaks apart) in any text. Each refusal names the field and the fix, never the value.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, NoReturn
from urllib.parse import parse_qsl

from starlette.requests import Request

from memory.errors import InvalidInput, MalformedBody, TooLarge

MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 32
MAX_QUERY_BYTES = 8192

_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,64}", re.ASCII)
_SUSPECT = re.compile(r"\x7f|\\[bf]|\\u(?:00[01]|007[fF]|[dD][89a-fA-F])")
_BAD_CHARACTER = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


class UnsupportedMediaType(InvalidInput):
    """The body is declared as something else than JSON in UTF-8."""

    status = 415
    slug = "unsupported-media-type"


def safe_name(name: object) -> str:
    """A caller's own field name, fit for an error message: short and plain, or not repeated at all."""
    text = str(name)
    return text if _NAME.fullmatch(text) else "(unprintable name)"


def nearest(name: str, known: Iterable[str]) -> str:
    """What the caller may have meant."""
    known = sorted(known)
    close = get_close_matches(name, known, 1, 0.6)
    if close:
        return f"did you mean `{close[0]}`?"
    return f"accepted are {', '.join(f'`{each}`' for each in known)}" if known else "none is accepted here"


def refused_character(text: str) -> str | None:
    """The fix for the first character that no text may hold, or None."""
    found = _BAD_CHARACTER.search(text)
    if found is None:
        return None
    code = ord(found.group())
    kind = "NUL" if code == 0 else "lone surrogate" if 0xD800 <= code <= 0xDFFF else "control character"
    return f"contains the {kind} U+{code:04X}; remove it"


def parse_json(raw: bytes) -> Any:
    """The document, or MalformedBody. A byte-order mark is accepted."""
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedBody(
            "body", f"is not UTF-8 (byte {error.start} does not belong there); send the JSON encoded as UTF-8"
        ) from None
    if not text.strip():
        raise MalformedBody("body", "is empty; send a JSON object")
    try:
        document = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_whole,
        )
    except json.JSONDecodeError as error:
        why = "holds an unescaped control character" if "control character" in error.msg else "is not valid JSON"
        raise MalformedBody("body", f"{why} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise _too_deep() from None
    _screen(document, bool(_SUSPECT.search(text)))
    return document


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise MalformedBody(safe_name(key), "occurs twice in one object; send it once")
            seen.add(key)
    return document


def _no_constant(_: str) -> NoReturn:
    raise MalformedBody("body", "holds NaN or Infinity, which JSON does not have; send a number or null")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise MalformedBody("body", "holds a number too large for a double; send a smaller one or a text")
    return value


def _whole(digits: str) -> int:
    if len(digits) < 19:
        return int(digits)
    if len(digits) > 20 or not -(2**63) <= (value := int(digits)) < 2**63:
        raise MalformedBody("body", "holds a whole number beyond 64 bits; send it as a text")
    return value


def _too_deep() -> MalformedBody:
    return MalformedBody("body", f"is nested deeper than {MAX_DEPTH} levels; flatten it")


def _screen(document: Any, look_at_texts: bool) -> None:
    """Depth, and (only where an escape in the body makes it possible) characters that no text may hold."""
    pending: list[tuple[tuple[Any, ...], Any]] = [((), document)]
    while pending:
        path, value = pending.pop()
        if look_at_texts and isinstance(value, str):
            _check(path, value)
        if not isinstance(value, dict | list):
            continue
        if len(path) >= MAX_DEPTH:
            raise _too_deep()
        inner: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, dict) else enumerate(value)
        for key, child in inner:
            if look_at_texts and isinstance(key, str):
                _check(path, key)
            if look_at_texts or isinstance(child, dict | list):
                pending.append(((*path, key), child))


def _check(path: tuple[Any, ...], text: str) -> None:
    fix = refused_character(text)
    if fix is not None:
        raise MalformedBody(".".join(map(safe_name, path)) or "body", fix)


def check_query(query: bytes, known: Mapping[str, bool]) -> None:
    """Refuse unknown parameters, undecodable ones and those given twice. `known`: name -> may be repeated."""
    if not query:
        return
    if len(query) > MAX_QUERY_BYTES:
        raise TooLarge("query", f"at most {MAX_QUERY_BYTES} bytes of parameters")
    try:
        pairs = parse_qsl(
            query.decode("ascii"), keep_blank_values=True, encoding="utf-8", errors="strict", max_num_fields=100
        )
    except (UnicodeDecodeError, ValueError):
        raise MalformedBody("query", "is not percent-encoded UTF-8, or has over 100 parameters") from None
    seen: set[str] = set()
    for name, value in pairs:
        if name not in known:
            raise InvalidInput(safe_name(name), f"unknown parameter; {nearest(name, known)}")
        if name in seen and not known[name]:
            raise InvalidInput(name, "is given twice; give it once")
        seen.add(name)
        fix = refused_character(value)
        if fix is not None:
            raise MalformedBody(name, fix)


def _check_content_type(request: Request) -> None:
    kind, *parameters = [part.strip().lower() for part in request.headers.get("content-type", "").split(";")]
    if not (kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))):
        raise UnsupportedMediaType("Content-Type", "send application/json")
    for parameter in parameters:
        if parameter.startswith("charset=") and parameter.partition("=")[2].strip("\"' ") not in ("utf-8", "utf8"):
            raise UnsupportedMediaType("Content-Type", "the charset must be utf-8")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise UnsupportedMediaType("Content-Encoding", "send the body uncompressed")


async def read_body(request: Request, limit: int = MAX_BODY_BYTES) -> bytes:
    """The whole body. Over `limit` bytes, declared or streamed: TooLarge, without reading on."""
    too_large = TooLarge("body", f"at most {limit} bytes; send less in one call")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > limit:
        raise too_large
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise too_large
        chunks.append(chunk)
    return b"".join(chunks)


async def read_json(request: Request, expected: bool) -> tuple[bytes, Any]:
    """Raw bytes and document. Where no body is `expected`, only none or `{}` is taken."""
    raw = await read_body(request)
    if not expected:
        if raw and parse_json(raw) != {}:
            raise MalformedBody("body", "this call takes none; send it without one")
        return b"", None
    if not raw:
        raise MalformedBody("body", "is empty; send a JSON object")
    _check_content_type(request)
    return raw, parse_json(raw)
