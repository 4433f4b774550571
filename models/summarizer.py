"""Text from a chat model: one in this process, or any OpenAI-compatible endpoint. It proposes; the rules decide (L3, L4)."""

from collections.abc import Sequence

from memory.errors import DeadlineExceeded, Overloaded, Unavailable
from models.chat import NAME, ChatModel, Message
from models.settings import SummarizerSettings

__all__ = ["Summarizer", "SummarizerSettings"]

_RETRY_S = 5.0


class Summarizer:
    """A chat model with a bound on how many calls may wait for it."""

    def __init__(self, chat: ChatModel, max_waiting: int) -> None:
        self._chat = chat
        self._max_waiting = max_waiting
        self._waiting = 0

    @classmethod
    def load(cls, settings: SummarizerSettings) -> "Summarizer":
        """With `url` the endpoint, which is not called yet; else the model. What is wrong with it is a ConfigError."""
        if settings.url is not None:
            from models.chat_endpoint import ChatEndpoint

            return cls(ChatEndpoint(settings), settings.max_waiting)
        from models.chat_local import LocalChat  # here: an endpoint needs no torch

        return cls(LocalChat.load(settings), settings.max_waiting)

    async def complete(self, messages: Sequence[Message], timeout_s: float) -> str:
        """The model's answer, never blank (P33). It may end where `max_new_tokens` ends it.

        Overloaded where too many wait already, DeadlineExceeded after `timeout_s` seconds, Unavailable where the model fails, refuses or
        says nothing, TooLarge where the prompt exceeds `max_prompt_tokens`.
        """
        if self._waiting >= self._max_waiting:
            raise Overloaded(NAME, _RETRY_S)
        if timeout_s <= 0:
            raise DeadlineExceeded(NAME)
        self._waiting += 1
        try:
            text = (await self._chat.complete(messages, timeout_s)).strip()
        finally:
            self._waiting -= 1
        if not text:
            raise Unavailable(NAME)
        return text

    async def close(self) -> None:
        await self._chat.close()
