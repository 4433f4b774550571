"""A cross-encoder: reads question and passage together and says how probable it is that the one answers the other."""

import copy
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification
from transformers.utils import logging as transformers_logging

from memory.errors import ConfigError, InvalidInput, Unavailable
from models.bert import BertPass
from models.choosing import Limits, Place, choose, own, padded
from models.devices import choose_device
from models.engines import BATCH_TOKENS, Engine, Head, Tokens
from models.settings import RerankerSettings
from models.transformer import load_tokenizer

__all__ = ["Pair", "PairWork", "Reranker", "RerankerSettings"]

_CHARS_A_TOKEN = 32
_ALIKE = Limits(float32=1e-3, bfloat16=0.02)
"""The most by which a probe's probability may differ from transformers' own in float32."""


@dataclass(frozen=True, slots=True)
class Pair:
    question: str
    passage: str

    @property
    def chars(self) -> int:
        """What the tokenizer reads."""
        return len(self.question) + len(self.passage)


@dataclass(frozen=True, slots=True)
class PairWork:
    """A tokenized pair, for models/batching.py."""

    ids: list[int]
    types: list[int]
    tokens: int
    """What the device reads for it."""
    kind: str = "pair"


class Reranker:
    """A sequence classifier on a device. `tokenize` may run in any thread, `run` in one at a time."""

    def __init__(self, settings: RerankerSettings, tokenizer: Any, network: Any) -> None:
        device = choose_device(settings.device)
        self.batch_tokens = settings.batch_tokens or BATCH_TOKENS[device.type]
        self.max_tokens = min(settings.max_tokens, int(min(tokenizer.model_max_length, 1 << 30)))
        self._tokenizer = tokenizer.backend_tokenizer
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self.max_tokens, strategy="longest_first")
        self._typed = "token_type_ids" in tokenizer.model_input_names
        place = Place(device, tokenizer.pad_token_id or 0, self.batch_tokens)
        ways = _JudgeWays(network.to(device).eval(), place)
        self.engine: Engine = ways.original(torch.float32)
        probe = self.tokenize(_PROBE)

        def outcome(engine: Engine) -> Tensor:
            self.engine = engine
            return torch.tensor(self.run(probe))

        self.engine = choose(ways, settings.dtype, outcome, _distance, _ALIKE, place.clock)

    @classmethod
    def load(cls, settings: RerankerSettings) -> "Reranker":
        """Load a local folder or a Hugging Face id. A model that is missing, broken or no judge of pairs is a ConfigError."""
        local = Path(settings.model).is_dir()
        tokenizer = load_tokenizer(settings.model)
        level = transformers_logging.get_verbosity()
        transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
        transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        try:
            network, report = AutoModelForSequenceClassification.from_pretrained(
                settings.model, dtype=torch.float32, local_files_only=local, output_loading_info=True
            )
        except Exception as bad:  # a damaged file shows as almost anything
            raise ConfigError(
                "reranker.model", f"{settings.model} cannot be loaded as a sequence classifier; check it"
            ) from bad
        finally:
            transformers_logging.set_verbosity(level)
        if (
            report["missing_keys"] or report["mismatched_keys"]
        ):  # an embedding model has no classifier: it would be random
            raise ConfigError("reranker.model", f"{settings.model} is no trained cross-encoder; name one that is")
        if network.config.num_labels not in (1, 2):
            raise ConfigError(
                "reranker.model", f"{settings.model} has {network.config.num_labels} labels; use one with 1 or 2"
            )
        torch.set_num_threads(settings.threads)
        try:
            return cls(settings, tokenizer, network)
        except (RuntimeError, IndexError) as bad:  # weights and configuration that do not fit each other
            raise ConfigError("reranker.model", f"{settings.model} does not run; check it") from bad

    @property
    def dtype(self) -> torch.dtype:
        return self.engine.dtype

    @property
    def launch_tokens(self) -> int:
        """What starting a forward pass costs, in tokens' worth of time."""
        return self.engine.launch_tokens

    def warm_up(self) -> None:
        """The first passes are slower than all others: run some before anybody waits."""
        self.scores(_PROBE[0].question, [pair.passage for pair in _PROBE])

    def scores(self, question: str, passages: Sequence[str]) -> list[float]:
        """Probability of relevance, 0..1, of each passage in order."""
        return self.run(self.tokenize([Pair(question, passage) for passage in passages]))

    def tokenize(self, pairs: Sequence[Pair]) -> list[PairWork]:
        """Question and passage with the model's marks between, at most `max_tokens`: the longer of the two is cut at its end."""
        limit = self.max_tokens * _CHARS_A_TOKEN
        try:
            encodings = self._tokenizer.encode_batch(
                [(pair.question.strip()[:limit], pair.passage.strip()[:limit]) for pair in pairs]
            )
        except (TypeError, UnicodeError):  # without its cause, whose message quotes the text
            raise InvalidInput("text", "must be text without lone surrogates") from None
        return [PairWork(e.ids, e.type_ids, self.engine.reads(len(e.ids))) for e in encodings]

    def run(self, works: Sequence[PairWork]) -> list[float]:
        """Probabilities in order. NaN out of the device is Unavailable."""
        scores = [0.0] * len(works)
        for rows, logits in self.engine.run([Tokens(w.ids, w.types if self._typed else None) for w in works]):
            logits = logits.float()
            probabilities = logits.sigmoid()[:, 0] if logits.shape[1] == 1 else logits.softmax(dim=1)[:, 1]
            for row, probability in zip(rows, probabilities.tolist(), strict=True):
                scores[row] = probability
        if not all(isfinite(score) for score in scores):
            raise Unavailable("the reranker")
        return scores


class _JudgeWays:
    """Of a sequence classifier. What is known of its class is only how its head follows from the first token's state."""

    def __init__(self, network: nn.Module, place: Place) -> None:
        self._network = network
        self._place = place

    def original(self, dtype: torch.dtype) -> Engine:
        network = self._network if dtype == torch.float32 else copy.deepcopy(self._network).to(dtype)
        typed = "token_type_ids" in inspect.signature(network.forward).parameters

        def forward(ids: Tensor, types: Tensor, attention: Tensor, /) -> Tensor:
            sides = {"token_type_ids": types} if typed else {}
            logits: Tensor = network(input_ids=ids, attention_mask=attention.long(), **sides).logits
            return logits[:, None]

        return padded(forward, dtype, self._place, head=lambda logits: logits)

    def own(self, dtype: torch.dtype) -> Engine | None:
        encoder: Any = getattr(self._network, "base_model", None)
        if encoder is None or not BertPass.knows(encoder):
            return None
        return own(encoder, dtype, self._place, _head(self._network, encoder, dtype))


def _head(network: Any, encoder: Any, dtype: torch.dtype) -> Head:
    """BERT's pooler and classifier, or RoBERTa's classifier, which does both."""
    pooler = copy.deepcopy(encoder.pooler).to(dtype) if encoder.pooler is not None else None
    classifier = copy.deepcopy(network.classifier).to(dtype)

    def judge(first: Tensor) -> Tensor:
        states = first[:, None]
        logits: Tensor = classifier(states if pooler is None else pooler(states))
        return logits

    return judge


def _distance(some: Tensor, others: Tensor) -> float:
    return float((some - others).abs().max())


_PROBE = (
    Pair(
        "Who mends the street lamps?",
        "The lamp in the lane was dark for three nights, then somebody came with a ladder.",
    ),
    Pair("Who mends the street lamps?", "Bread, cheese, two lemons and a box of matches."),
    Pair("Who mends the street lamps?", "这条巷子里的路灯坏了三个晚上，今天终于有人来修了。"),
    Pair("渡轮什么时候停航？", "如果明天风太大，渡轮就会停航，我们只好坐大巴绕路回去。"),
    Pair("渡轮什么时候停航？", "下午四点开会。"),
    Pair(
        "渡轮什么时候停航？",
        "They measured the depth of the lake with a stone and a rope, and wrote the result on the wall of the mill.",
    ),
)
