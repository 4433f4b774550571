"""Building blocks for the tests of the prompt: entries, turns, and three tokenizers that behave differently."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache

import regex
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from memory.chat import OPENAI_CHAT, ChatOverhead
from memory.entry import Kind, Memory, Source, Status
from memory.turns import Role, ToolCall, Turn
from models.tokens import counter_for

SAID = datetime(2026, 3, 2, 12, tzinfo=UTC)


def memory(id: str, content: str, status: Status = Status.ACTIVE, **changes) -> Memory:
    fields = {
        "user_id": "u",
        "kind": Kind.FACT,
        "source": Source.USER,
        "language": "zh",
        "importance": 0.5,
        "confidence": 0.6,
        "version": 1,
        "created_at": SAID,
        "updated_at": SAID,
    }
    return Memory(id=id, content=content, status=status, **{**fields, **changes})


def turn(
    seq: int, role: str, content: str = "", calls: tuple[str, ...] = (), answers: str | None = None, **more
) -> Turn:
    """`calls` are the ids of the tools called, `answers` the id of the call that a tool's turn answers."""
    return Turn(
        id=f"t{seq}",
        seq=seq,
        role=Role(role),
        content=content,
        tokens=0,
        at=SAID,
        tool_calls=tuple(ToolCall(call, "find_order", '{"number": "A-17"}') for call in calls),
        tool_call_id=answers,
        **more,
    )


SAMPLE = (
    "用户三月搬到了柏林，喜欢喝咖啡，对花生过敏。预算是两千元，订单号 A-17。",
    "The user moved to Berlin in March, likes coffee and is allergic to peanuts. Refunds take three days.",
    "Café déjà vu, naïve, 👨‍👩‍👧 🇩🇪 e\u0301a\u0308.",
)


@cache
def byte_level_tokenizer() -> Tokenizer:
    """A small tokenizer as open models have them, trained here."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=["<unk>", "</s>", "<|im_start|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SAMPLE * 4, trainer)
    return tokenizer


def hugging_face_count(text: str) -> int:
    tokenizer = byte_level_tokenizer()
    tokenizer.encode_special_tokens = True
    return len(tokenizer.encode(text, add_special_tokens=False).ids)


COUNTERS: dict[str, Callable[[str], int]] = {
    "o200k": counter_for("gpt-4o"),
    "cl100k": counter_for("gpt-4"),
    "hugging_face": hugging_face_count,
}


def provider_tokens(messages, tools, count, overhead: ChatOverhead = OPENAI_CHAT) -> int:
    """The published formula for chat requests, written independently of memory/chat.py: every value of every message, 3 a message,
    1 a name, 3 for the reply; for tools 7 a function, 12 once, names, descriptions and types."""
    total = 3
    for message in messages:
        total += 3
        for key, value in message.items():
            if key == "tool_calls":
                for call in value:
                    total += (
                        count(call["id"]) + count(call["function"]["name"]) + count(call["function"]["arguments"]) + 3
                    )
            elif value is not None:
                total += count(value)
            if key == "name":
                total += 1
    for tool in tools:
        function = tool["function"]
        total += 7 + count(f"{function['name']}:{function.get('description', '')}")
        for name, field in function.get("parameters", {}).get("properties", {}).items():
            total += 3 + count(f"{name}:{field['type']}:{field.get('description', '')}")
    return total + (12 if tools else 0)


def inside_grapheme(whole: str, part: str) -> bool:
    """Whether `part`, a beginning of `whole`, ends inside one of its grapheme clusters."""
    return len(part) not in {0, *(match.end() for match in regex.finditer(r"\X", whole))}
