"""What a chat model is to the Summarizer, wherever it runs."""

from collections.abc import Sequence
from typing import Protocol

NAME = "the summarizer"
"""As errors and logs call it."""

Message = dict[str, str]
"""{"role": "system" | "user" | "assistant", "content": ...}"""


class ChatModel(Protocol):
    async def complete(self, messages: Sequence[Message], timeout_s: float) -> str: ...
    async def close(self) -> None: ...
