"""A cross-encoder: reads question and passage together and says how probable it is that the one answers the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification
from transformers.utils import logging as transformers_logging

from memory.errors import ConfigError, InvalidInput, Unavailable
from models.devices import choose_device
from models.padding import padded_groups
from models.settings import RerankerSettings
from models.transformer import BATCH_TOKENS, LAUNCH_TOKENS, load_tokenizer

__all__ = ["Pair", "PairWork", "Reranker", "RerankerSettings"]

_CHARS_A_TOKEN = 32


@dataclass(frozen=True, slots=True)
class Pair:
    question: str
    passage: str


@dataclass(frozen=True, slots=True)
class PairWork:
    """A tokenized pair, for models/batching.py."""

    ids: list[int]
    types: list[int]
    kind: str = "pair"

    @property
    def tokens(self) -> int:
        return len(self.ids)


class Reranker:
    """A sequence classifier on a device. `tokenize` may run in any thread, `run` in one at a time."""

    def __init__(self, settings: RerankerSettings, tokenizer: Any, network: Any) -> None:
        self.device = choose_device(settings.device)
        self.network = network.to(self.device, getattr(torch, settings.dtype)).eval()
        self.batch_tokens = settings.batch_tokens or BATCH_TOKENS[self.device.type]
        self.max_tokens = min(settings.max_tokens, int(min(tokenizer.model_max_length, 1 << 30)))
        self._tokenizer = tokenizer.backend_tokenizer
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self.max_tokens, strategy="longest_first")
        self._pad_id: int = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
        self._typed = "token_type_ids" in tokenizer.model_input_names

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
        return cls(settings, tokenizer, network)

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
        return [PairWork(encoding.ids, encoding.type_ids) for encoding in encodings]

    def run(self, works: Sequence[PairWork]) -> list[float]:
        """Probabilities in order. NaN out of the device is Unavailable."""
        scores = [0.0] * len(works)
        for rows in padded_groups([work.tokens for work in works], self.batch_tokens, LAUNCH_TOKENS[self.device.type]):
            for row, score in zip(rows, self._run_group([works[row] for row in rows]), strict=True):
                scores[row] = score
        return scores

    @torch.inference_mode()
    def _run_group(self, group: list[PairWork]) -> list[float]:
        longest = max(work.tokens for work in group)
        ids = torch.full((len(group), longest), self._pad_id)
        types, attention = torch.zeros_like(ids), torch.zeros_like(ids)
        for row, work in enumerate(group):
            ids[row, : work.tokens] = torch.tensor(work.ids)
            types[row, : work.tokens] = torch.tensor(work.types)
            attention[row, : work.tokens] = 1
        inputs = {"input_ids": ids, "attention_mask": attention} | ({"token_type_ids": types} if self._typed else {})
        logits = self.network(**{name: value.to(self.device) for name, value in inputs.items()}).logits.float()
        probabilities = logits.sigmoid()[:, 0] if logits.shape[1] == 1 else logits.softmax(dim=1)[:, 1]
        if not probabilities.isfinite().all():
            raise Unavailable("the reranker")
        return [float(p) for p in probabilities.cpu()]
