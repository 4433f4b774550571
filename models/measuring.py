"""What is found out about an embedding model once, when it is prepared: its means, its scores of unrelated texts, its limits."""

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from memory.calibration import ModelStatistics
from memory.encoding import ModelCard, Passage
from memory.errors import ConfigError
from memory.late import late_scores, pack, unpack
from models.card import Likeness, Pooling, PreparedModel, model_files
from models.choosing import EncoderWays, Place
from models.devices import choose_device
from models.engines import BATCH_TOKENS
from models.progress import Progress, silent
from models.settings import EncoderSettings
from models.transformer import TextModel, TokenSequence, load_network, load_tokenizer

MAX_TOKENS = 512
"""Entries are short. A model that could read more would only be slower."""
_QUESTIONS = 64
"""Each of so many sample sentences, as a question, is compared with all other sentences."""


def measure(source: Path, settings: EncoderSettings, progress: Progress = silent) -> PreparedModel:
    """Load the model in `source` once, in float32, and find out what `strata.json` keeps."""
    network = load_network(source)
    torch.set_num_threads(settings.threads)
    config: Any = network.config
    tokenizer = load_tokenizer(source)
    dimension = int(config.hidden_size)
    if dimension % 4:
        raise ConfigError(str(source), f"has {dimension} dimensions; a model needs a multiple of 4")
    device = choose_device(settings.device)
    place = Place(device, tokenizer.pad_token_id or 0, settings.batch_tokens or BATCH_TOKENS[device.type])
    prefixes = _prefixes(source, settings)
    pooling = _pooling(source)
    model = TextModel(
        tokenizer,
        EncoderWays(network.to(device), place).original(torch.float32),
        max_tokens=_max_tokens(source, config, tokenizer),
        pooling=pooling,
    )
    sentences = [Passage(text) for text in sample()]
    encoded = {}
    for stage, (kind, prefix) in enumerate(prefixes.items()):
        sequences = model.tokenize(prefix, sentences)
        encoded[kind] = _encode(model, sequences, lambda done, at=stage: progress("means", (at + done) / 2))  # type: ignore[misc]
    means = np.stack(
        [np.concatenate(encoded[kind].tokens).mean(axis=0, dtype=np.float64) for kind in ("passage", "query")]
    )
    means = means.astype(np.float32)
    statistics, pairs = _statistics(encoded["query"], encoded["passage"], means, progress)
    card = ModelCard(
        name=Path(settings.model).name if Path(settings.model).is_dir() else settings.model,
        dimension=dimension,
        max_tokens=model.max_tokens,
        query_prefix=prefixes["query"],
        passage_prefix=prefixes["passage"],
        means_digest=_digest(source),
    )
    return PreparedModel(source, card, pooling, means, statistics, pairs, model_files(source))


class _Sample:
    """The sample's pooled vectors [sentences, dimension], and of each sentence its uncentred token vectors."""

    def __init__(self, pooled: NDArray[np.float32], tokens: list[NDArray[np.float32]]) -> None:
        self.pooled = pooled
        self.tokens = tokens


def _encode(model: TextModel, sequences: Sequence[TokenSequence], progress: Callable[[float], None]) -> _Sample:
    pooled: dict[int, Tensor] = {}
    tokens: dict[int, Tensor] = {}
    for hidden in model.forward(sequences):
        pooled.update(zip(hidden.rows, hidden.pooled.cpu(), strict=True))
        counts = [sequences[row].own_count for row in hidden.rows]
        tokens.update(zip(hidden.rows, torch.split(hidden.own.cpu(), counts), strict=True))
        progress(len(pooled) / len(sequences))
    order = range(len(sequences))
    return _Sample(np.stack([pooled[i].numpy() for i in order]), [tokens[i].numpy() for i in order])


def _statistics(
    queries: _Sample, passages: _Sample, means: NDArray[np.float32], progress: Progress
) -> tuple[ModelStatistics, Likeness]:
    """Every sample sentence is unrelated to every other: all pairs but a sentence with itself."""
    count = len(passages.pooled)
    others = ~np.eye(count, dtype=bool)
    pooled = (queries.pooled @ passages.pooled.T)[others]
    pairs = (passages.pooled @ passages.pooled.T)[others]
    kept = [unpack(pack(_centred(tokens, means[0]))) for tokens in passages.tokens]
    late: list[NDArray[np.float32]] = []
    questions = range(0, count, max(count // _QUESTIONS, 1))
    for done, question in enumerate(questions):
        if len(queries.tokens[question]):
            scores = late_scores(_centred(queries.tokens[question], means[1]), kept).plain
            late.append(scores[others[question]])
        progress("statistics", (done + 1) / len(questions))
    scored = np.concatenate(late)
    statistics = ModelStatistics(
        pooled_mean=float(pooled.mean()),
        pooled_std=float(pooled.std()),
        late_mean=float(scored.mean()),
        late_std=float(scored.std()),
    )
    return statistics, Likeness(mean=float(pairs.mean()), std=float(pairs.std()))


def _centred(tokens: NDArray[np.float32], mean: NDArray[np.float32]) -> NDArray[np.float32]:
    return nn.functional.normalize(torch.from_numpy(tokens - mean), dim=-1).numpy()


def sample() -> list[str]:
    """Our own everyday sentences, Chinese and English, no two of which have anything to do with each other."""
    return files("models").joinpath("sample_zh_en.txt").read_text(encoding="utf-8").splitlines()


def _digest(source: Path) -> str:
    """Names the means by what they follow from: the model's files and the sample.

    Not by their own bytes, which differ in the last bits from one machine to the next: two replicas that prepared the same
    model must get the same card.
    """
    digest = hashlib.blake2b(digest_size=16)
    digest.update("\n".join(sample()).encode())
    for name in model_files(source):
        if name.endswith((".safetensors", "tokenizer.json")):
            with (source / name).open("rb") as file:
                digest.update(hashlib.file_digest(file, "blake2b").digest())
    return digest.hexdigest()


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _prefixes(source: Path, settings: EncoderSettings) -> dict[str, str]:
    """The settings', else those that the model states for sentence-transformers, else E5's for a model of that family."""
    prompts = _json(source / "config_sentence_transformers.json").get("prompts") or {}
    query = prompts.get("query")
    passage = prompts.get("passage", prompts.get("document"))
    family = re.search(r"(^|[-_/])e5[-_]", settings.model.lower())
    if family and "instruct" not in settings.model.lower():
        query = query or "query: "
        passage = passage or "passage: "
    return {
        "query": settings.query_prefix if settings.query_prefix is not None else query or "",
        "passage": settings.passage_prefix if settings.passage_prefix is not None else passage or "",
    }


def _pooling(source: Path) -> Pooling:
    stated = _json(source / "1_Pooling" / "config.json")
    if stated.get("pooling_mode_cls_token"):
        return "cls"
    if stated and not stated.get("pooling_mode_mean_tokens", True):
        raise ConfigError(
            str(source), "pools in a way that is not supported; use a model that pools by mean or first token"
        )
    return "mean"


def _max_tokens(source: Path, config: Any, tokenizer: Any) -> int:
    positions = int(getattr(config, "max_position_embeddings", MAX_TOKENS))
    if config.model_type in {"roberta", "xlm-roberta", "camembert", "mpnet"}:
        positions -= int(config.pad_token_id) + 1  # these count positions from behind the padding token's id
    stated = _json(source / "sentence_bert_config.json").get("max_seq_length") or MAX_TOKENS
    return min(MAX_TOKENS, positions, int(stated), int(min(tokenizer.model_max_length, 1 << 30)))
