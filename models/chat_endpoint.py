"""Any server that speaks the OpenAI chat API."""

import asyncio
import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from memory.errors import ConfigError, DeadlineExceeded, InvalidInput, TooLarge, Unavailable
from models.chat import NAME, Message
from models.settings import SummarizerSettings

log = logging.getLogger(__name__)

_MOST_BYTES = 4 << 20
_PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Statuses that may be another a moment later."""
_REFUSED = frozenset({"content_filter", "refusal"})
_CONNECT_S = 3.0
_MOST_WAIT_S = 60.0


class _TryAgain(Exception):
    """A failure that may pass. `after_s` is what the server asks to wait."""

    def __init__(self, after_s: float = 0.0) -> None:
        super().__init__()
        self.after_s = after_s


def read_secret(reference: str) -> str:
    """The value behind `env:NAME` or `file:/path`, without the line's end. Nothing there is a ConfigError, which never shows a value."""
    kind, _, name = reference.partition(":")
    if kind == "env":
        value = os.environ.get(name, "")
    else:
        try:
            value = Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            value = ""
    if not value.strip():
        raise ConfigError("summarizer.api_key", f"{reference} is empty or cannot be read; set it or leave api_key out")
    return value.strip()


class ChatEndpoint:
    """Bounded in every way: a deadline for the whole call, a number of tries with jitter between them, bytes of an answer."""

    def __init__(self, settings: SummarizerSettings) -> None:
        assert settings.url is not None
        self._settings = settings
        try:
            self._url = httpx.URL(settings.url.rstrip("/") + "/chat/completions")
        except httpx.InvalidURL as bad:
            raise ConfigError("summarizer.url", "is no URL; write it as https://host[:port]/v1") from bad
        self._headers = {"Content-Type": "application/json"}
        if settings.api_key is not None:
            self._headers["Authorization"] = f"Bearer {read_secret(settings.api_key)}"
        self._client: httpx.AsyncClient | None = None

    async def complete(self, messages: Sequence[Message], timeout_s: float) -> str:
        """As Summarizer.complete. The server's own words never reach an error or a log."""
        if (
            sum(len(m["content"]) for m in messages) > 16 * self._settings.max_prompt_tokens
        ):  # its tokenizer is not known here
            raise TooLarge("messages", f"send at most {self._settings.max_prompt_tokens} tokens")
        body = {
            "model": self._settings.model,
            "messages": list(messages),
            "max_tokens": self._settings.max_new_tokens,
            "temperature": self._settings.temperature,
        }
        try:
            content = json.dumps(body, ensure_ascii=False).encode()
        except UnicodeEncodeError:  # without its cause, whose message quotes the text
            raise InvalidInput("messages", "must be text without lone surrogates") from None
        jitter = wait_random_exponential(multiplier=0.2, max=5.0)

        def pause(state: RetryCallState) -> float:
            failure = state.outcome.exception() if state.outcome else None
            asked = failure.after_s if isinstance(failure, _TryAgain) else 0.0
            return asked + jitter(state)

        tries = AsyncRetrying(
            stop=stop_after_attempt(self._settings.attempts),
            wait=pause,
            retry=retry_if_exception_type(_TryAgain),
            reraise=True,
        )
        try:
            async with asyncio.timeout(timeout_s):
                return await tries(self._ask, content)
        except TimeoutError:
            raise DeadlineExceeded(NAME) from None
        except _TryAgain:
            raise Unavailable(NAME) from None

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _ask(self, content: bytes) -> str:
        if self._client is None:  # here: it belongs to the loop that calls
            # No timeout but the connection's: the call's deadline is around all tries.
            self._client = httpx.AsyncClient(
                headers=self._headers,
                timeout=httpx.Timeout(None, connect=_CONNECT_S),
                limits=httpx.Limits(max_connections=self._settings.max_waiting),
            )
        try:
            async with self._client.stream("POST", self._url, content=content) as response:
                if response.status_code in _PASSING:
                    raise _TryAgain(_retry_after(response))
                if response.status_code != 200:
                    log.error("%s answered %d; check url, model and api_key", NAME, response.status_code)
                    raise Unavailable(NAME)
                raw = bytearray()
                async for chunk in response.aiter_bytes():
                    raw += chunk
                    if len(raw) > _MOST_BYTES:
                        log.error("%s answered more than %d bytes", NAME, _MOST_BYTES)
                        raise Unavailable(NAME)
        except httpx.HTTPError as error:
            log.warning("%s: %s", NAME, type(error).__name__)
            raise _TryAgain from None
        return _text(bytes(raw))


def _text(raw: bytes) -> str:
    """The first choice's text. What is no such answer may be a proxy's hiccup: try again; a refusal is final."""
    try:
        choice: Any = json.loads(raw)["choices"][0]
        message = choice["message"]
        refused = choice.get("finish_reason") in _REFUSED or message.get("refusal")
        content = message["content"]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        raise _TryAgain from None
    if refused:
        log.warning("%s refused", NAME)
        raise Unavailable(NAME)
    if not isinstance(content, str):
        raise _TryAgain
    return content


def _retry_after(response: httpx.Response) -> float:
    """Seconds that the server asks for; 0 where it says nothing, or gives a date."""
    asked: str = response.headers.get("retry-after", "")
    return min(float(asked), _MOST_WAIT_S) if asked.isdecimal() else 0.0
