"""One transformer with its tokenizer: texts in, pooled vectors and the hidden states of a text's own tokens out."""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.models.auto.modeling_auto import MODEL_MAPPING
from transformers.utils import logging as transformers_logging

from memory.encoding import Passage
from memory.errors import ConfigError, InvalidInput
from models.card import Pooling
from models.engines import Engine, Tokens

_CHARS_A_TOKEN = 32
"""No text needs more characters than this a token: what lies beyond is cut before tokenizing, so that 1 MB costs no more than 16 kB."""
_BETWEEN = "\n"
"""Stands between context and text. Tokenizers of words and of pieces both end a token at it."""


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """What the model reads, and which of its positions are the text's own: without prefix, context and special tokens."""

    ids: list[int]
    own: slice

    @property
    def own_count(self) -> int:
        return int(self.own.stop) - int(self.own.start)


@dataclass(frozen=True, slots=True)
class Hidden:
    """Of one group: `rows` are indices into the sequences given. `pooled` float32 [rows, dimension], unit length;
    `own` float32 [sum of the rows' own tokens, dimension], as the model gives them."""

    rows: list[int]
    pooled: Tensor
    own: Tensor


def load_tokenizer(source: str | Path) -> Any:
    """A fast tokenizer (one that knows its offsets). A Hugging Face id, or a folder, which is then not looked up anywhere."""
    local = Path(source).is_dir()
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(source), local_files_only=local)
    except (OSError, ValueError, KeyError, ImportError) as bad:
        raise ConfigError(
            str(source), "has no tokenizer that can be loaded; check the folder or the model's id"
        ) from bad
    if not tokenizer.is_fast:
        raise ConfigError(str(source), "has a slow tokenizer without offsets; use a model with a tokenizer.json")
    return tokenizer


def load_network(source: str | Path) -> nn.Module:
    """AutoModel in float32, ready for inference, without the pooling head that no embedding uses."""
    local = Path(source).is_dir()
    level = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # its report of an unused head is no news
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    refused = ConfigError(str(source), "holds no model that can be loaded; check the folder or the model's id")
    try:
        config = AutoConfig.from_pretrained(str(source), local_files_only=local)
        options: dict[str, Any] = {"config": config, "dtype": torch.float32, "local_files_only": local}
        if "add_pooling_layer" in inspect.signature(cast(type, MODEL_MAPPING[type(config)])).parameters:
            options["add_pooling_layer"] = False
        network, report = AutoModel.from_pretrained(str(source), output_loading_info=True, **options)
    except Exception as bad:  # a damaged file shows as almost anything: safetensors, pickle, OSError, KeyError
        raise refused from bad
    finally:
        transformers_logging.set_verbosity(level)
    if report["missing_keys"] or report["mismatched_keys"]:  # else they would be random numbers
        raise refused
    return cast(nn.Module, network.eval())


class TextModel:
    """Tokenizer, network and device. `tokenize` may run in any thread, `forward` in one at a time."""

    def __init__(
        self,
        tokenizer: Any,
        engine: Engine,
        *,
        max_tokens: int,
        pooling: Pooling,
    ) -> None:
        self.engine = engine
        self.max_tokens = max_tokens
        self.pooling = pooling
        # The Rust tokenizer itself, set once and then only read: the wrapper around it switches truncation on and off in place,
        # which two threads must not.
        self._tokenizer = tokenizer.backend_tokenizer
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True  # a "</s>" that a user typed is text

    def tokenize(self, prefix: str, passages: Sequence[Passage]) -> list[TokenSequence]:
        """Prefix, context, text and special tokens, at most `max_tokens`: the context is cut from its left first, then the text's tail."""
        limit = self.max_tokens * _CHARS_A_TOKEN
        inputs, begins = [], []
        for passage in passages:
            context, text = passage.context.strip()[-limit:], passage.text.strip()[:limit]
            before = prefix + context + _BETWEEN if context else prefix
            inputs.append(before + text)
            begins.append((len(prefix), len(before)))
        try:
            encodings = self._tokenizer.encode_batch(inputs)
        except (TypeError, UnicodeError):  # without its cause, whose message quotes the text
            raise InvalidInput("text", "must be text without lone surrogates") from None
        return [self._fit(e, *begin) for e, begin in zip(encodings, begins, strict=True)]

    def _fit(self, encoding: Any, context_begin: int, text_begin: int) -> TokenSequence:
        """Cut one tokenized input to `max_tokens`. A token belongs to the part that its last character is in: a piece that
        begins with the blank before a word is the word's."""
        head: list[int] = []  # leading special tokens and the prefix
        context: list[int] = []
        text: list[int] = []
        tail: list[int] = []  # closing special tokens
        inside = False
        for token, (_, end), special in zip(encoding.ids, encoding.offsets, encoding.special_tokens_mask, strict=True):
            if special:
                (tail if inside else head).append(token)
                continue
            inside = True
            if end <= context_begin:
                head.append(token)
            elif end <= text_begin:
                context.append(token)
            else:
                text.append(token)
        room = max(self.max_tokens - len(head) - len(tail), 0)
        text = text[:room]
        context = context[max(len(context) - (room - len(text)), 0) :]
        begin = len(head) + len(context)
        return TokenSequence(head + context + text + tail, slice(begin, begin + len(text)))

    @torch.inference_mode()
    def forward(self, sequences: Sequence[TokenSequence]) -> Iterator[Hidden]:
        """Run the model over the sequences, group by group; each sequence is in exactly one group."""
        for rows, states in self.engine.run([Tokens(sequence.ids) for sequence in sequences]):
            group = [sequences[row] for row in rows]
            lengths = [len(sequence.ids) for sequence in group]
            begins = [0, *accumulate(lengths)]
            own = [
                begin + at for begin, one in zip(begins, group, strict=False) for at in range(*one.own.indices(1 << 30))
            ]
            hidden = states.float()
            yield Hidden(
                rows,
                pool(hidden, lengths, self.pooling),
                hidden[torch.tensor(own, device=hidden.device, dtype=torch.long)],
            )


def pool(hidden: Tensor, lengths: Sequence[int], pooling: Pooling) -> Tensor:
    """float32 [sum of lengths, dimension] -> [texts, dimension], unit length: the mean over a text's tokens, or its first token."""
    count = torch.tensor(lengths, device=hidden.device)
    if pooling == "cls":
        vectors = hidden[count.cumsum(0) - count]
    else:
        text = torch.arange(len(lengths), device=hidden.device).repeat_interleave(count, output_size=len(hidden))
        vectors = hidden.new_zeros(len(lengths), hidden.shape[1]).index_add_(0, text, hidden) / count[:, None]
    return nn.functional.normalize(vectors, dim=-1)
