"""The embedding model: pooled vectors and token vectors of questions and passages.

Pooled vectors are of a text alone, as such models were trained; they fetch candidates. Token vectors are of the text's own
tokens, a passage's within its left context, centred by the model's mean; memory/late.py judges with them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from memory.calibration import ModelStatistics
from memory.encoding import EncodedPassage, EncodedQuery, ModelCard, Passage
from memory.errors import ConfigError, Unavailable
from memory.late import pack
from models.card import PreparedModel, read_prepared
from models.choosing import EncoderWays, Limits, Place, choose
from models.devices import choose_device
from models.engines import BATCH_TOKENS, Engine
from models.prepare import prepare
from models.settings import EncoderSettings
from models.transformer import TextModel, TokenSequence, load_network, load_tokenizer

__all__ = ["Encoder", "EncoderSettings", "EncoderWork"]

_ALIKE = Limits(float32=1e-4, bfloat16=1e-3)
"""1 less the cosine of a probe's pooled vector and transformers' own in float32."""

Item = str | Passage
Encoded = EncodedQuery | EncodedPassage


@dataclass(frozen=True, slots=True)
class EncoderWork:
    """One tokenized text. `alone` gives the pooled vector; `within` the token vectors, where that takes a pass of its own.
    `tokens` is what the device reads for both."""

    kind: Literal["query", "passage"]
    tokens: int
    alone: TokenSequence
    within: TokenSequence | None = None

    @property
    def sequences(self) -> list[TokenSequence]:
        return [self.alone, self.within] if self.within else [self.alone]


class Encoder:
    """A prepared model on a device. `tokenize_*` may run in any thread; whatever runs the model, in one thread at a time."""

    def __init__(self, prepared: PreparedModel, model: TextModel, device: torch.device, batch_tokens: int) -> None:
        self.card: ModelCard = prepared.card
        self.statistics: ModelStatistics = prepared.statistics
        self.prepared = prepared
        self.model = model
        self.device = device
        self.batch_tokens = batch_tokens
        """Tokens in one forward pass at most."""
        passage_mean, query_mean = torch.from_numpy(prepared.means).to(device)
        self._means: dict[str, Tensor] = {"passage": passage_mean, "query": query_mean}

    @classmethod
    def load(cls, settings: EncoderSettings) -> "Encoder":
        """Prepare the model if need be, load it, and choose its number format. Whatever is wrong with it is a ConfigError."""
        folder = settings.folder or prepare(settings)
        return cls.from_folder(folder, settings)

    @classmethod
    def from_folder(cls, folder: Path, settings: EncoderSettings) -> "Encoder":
        """As `load`, of a folder that `prepare` has made."""
        prepared = read_prepared(folder)
        card = prepared.card
        if settings.dimension not in (None, card.dimension):
            raise ConfigError(
                "encoder.dimension",
                f"says {settings.dimension}, but {card.name} has {card.dimension}; correct it or name another model",
            )
        for name, wanted, has in (
            ("query_prefix", settings.query_prefix, card.query_prefix),
            ("passage_prefix", settings.passage_prefix, card.passage_prefix),
        ):
            if wanted not in (None, has):
                raise ConfigError(
                    f"encoder.{name}", f"differs from the one that {folder} was prepared with; leave out `folder`"
                )
        torch.set_num_threads(settings.threads)
        device = choose_device(settings.device)
        tokenizer = load_tokenizer(prepared.source)
        place = Place(device, tokenizer.pad_token_id or 0, settings.batch_tokens or BATCH_TOKENS[device.type])
        ways = EncoderWays(load_network(prepared.source).to(device), place)
        model = TextModel(tokenizer, ways.original(torch.float32), max_tokens=card.max_tokens, pooling=prepared.pooling)
        probe = model.tokenize(card.passage_prefix, [Passage(text) for text in _PROBE])

        def pooled(engine: Engine) -> Tensor:
            model.engine = engine
            groups = [hidden.pooled.cpu() for hidden in model.forward(probe)]
            return torch.cat(groups)

        try:
            if pooled(model.engine).shape[1] != card.dimension:
                raise IndexError("dimension")
            model.engine = choose(ways, settings.dtype, pooled, _distance, _ALIKE, place.clock)
        except (RuntimeError, IndexError) as bad:  # weights and configuration that do not fit each other
            raise ConfigError(str(folder), "does not run; delete this folder and start again") from bad
        return cls(prepared, model, device, place.budget)

    @property
    def dtype(self) -> torch.dtype:
        return self.model.engine.dtype

    @property
    def launch_tokens(self) -> int:
        """What starting a forward pass costs, in tokens' worth of time."""
        return self.model.engine.launch_tokens

    def warm_up(self) -> None:
        """The first passes are slower than all others: run some before anybody waits, twice, so that a GPU records their shapes."""
        for count in (1, 1, 2, 2, 4, 4, 8, 8):
            self.encode_queries(_PROBE[:count])
        self.encode_passages([Passage(text, context=_PROBE[0]) for text in _PROBE])

    def encode_queries(self, texts: Sequence[str]) -> list[EncodedQuery]:
        """In order. A text without any token of its own (blank) has `tokens` of shape [0, dimension]."""
        return [encoded for encoded in self.run(self.tokenize(texts)) if isinstance(encoded, EncodedQuery)]

    def encode_passages(self, passages: Sequence[Passage]) -> list[EncodedPassage]:
        """In order. A text without any token of its own (blank) has `tokens` of shape [0, dimension / 4]."""
        return [encoded for encoded in self.run(self.tokenize(passages)) if isinstance(encoded, EncodedPassage)]

    def tokenize(self, items: Sequence[Item]) -> list[EncoderWork]:
        """Questions (str) and passages, in order, ready to run: the part that needs no device."""
        queries = [i for i, item in enumerate(items) if isinstance(item, str)]
        works: dict[int, EncoderWork] = {}
        bare = [Passage(item) for item in items if isinstance(item, str)]
        for i, sequence in zip(queries, self.model.tokenize(self.card.query_prefix, bare), strict=True):
            works[i] = EncoderWork("query", self._reads(sequence), sequence)
        passages = {i: item for i, item in enumerate(items) if isinstance(item, Passage)}
        alone = self.model.tokenize(self.card.passage_prefix, [Passage(p.text) for p in passages.values()])
        for i, sequence in zip(passages, alone, strict=True):
            works[i] = EncoderWork("passage", self._reads(sequence), sequence)
        told = {i: p for i, p in passages.items() if p.context.strip() and works[i].alone.own_count}
        for i, within in zip(told, self.model.tokenize(self.card.passage_prefix, list(told.values())), strict=True):
            bare_work = works[i]
            # else no context is left beside a text this long: one pass serves both
            if len(within.ids) > len(bare_work.alone.ids):
                works[i] = EncoderWork("passage", bare_work.tokens + self._reads(within), bare_work.alone, within)
        return [works[i] for i in range(len(items))]

    def _reads(self, sequence: TokenSequence) -> int:
        return self.model.engine.reads(len(sequence.ids))

    def run(self, works: Sequence[EncoderWork]) -> list[Encoded]:
        """Run the model, questions and passages together, and answer in order. NaN out of the device is Unavailable."""
        sequences = [sequence for work in works for sequence in work.sequences]
        kinds = [work.kind for work in works for _ in work.sequences]
        pooled: dict[int, NDArray[np.float32]] = {}
        tokens: dict[int, NDArray[np.float32] | NDArray[np.uint8]] = {}
        for hidden in self.model.forward(sequences):
            counts = [sequences[row].own_count for row in hidden.rows]
            vectors = hidden.pooled.cpu().numpy()
            own = self._centre(hidden.own, [kinds[row] for row in hidden.rows], counts).cpu().numpy()
            if not (np.isfinite(vectors).all() and np.isfinite(own).all()):
                raise Unavailable("the embedding model")
            ends = np.cumsum(counts)
            for row, vector, end, count in zip(hidden.rows, vectors, ends, counts, strict=True):
                pooled[row] = vector.copy()
                mine = own[end - count : end]
                tokens[row] = pack(mine) if kinds[row] == "passage" else mine.copy()
        results: list[Encoded] = []
        row = 0
        for work in works:
            last = row + len(work.sequences) - 1
            if work.kind == "query":
                results.append(EncodedQuery(pooled[row], tokens[row]))  # type: ignore[arg-type]
            else:
                results.append(EncodedPassage(pooled[row], tokens[last]))  # type: ignore[arg-type]
            row = last + 1
        return results

    def _centre(self, own: Tensor, kinds: list[str], counts: list[int]) -> Tensor:
        """Token vectors less their kind's mean, unit length. float32 [sum(counts), dimension]"""
        means = torch.stack([self._means[kind] for kind in kinds])
        repeats = torch.tensor(counts, device=own.device)
        return nn.functional.normalize(own - means.repeat_interleave(repeats, dim=0), dim=-1)


def _distance(some: Tensor, others: Tensor) -> float:
    """Of unit vectors, pair by pair: the most that a cosine falls short of 1."""
    return float(1.0 - (some * others).sum(dim=1).min())


_PROBE = (
    "The kettle is older than the house, and it still whistles.",
    "这条巷子里的路灯坏了三个晚上，今天终于有人来修了。",
    "A short one.",
    "They measured the depth of the lake with a stone and a rope, and wrote the result on the wall of the mill.",
    "下午四点开会。",
    "我们把行李寄放在车站，然后沿着河边走了一个多小时，直到看见那座红色的塔。",
    "Bread, cheese, two lemons and a box of matches.",
    "如果明天风太大，渡轮就会停航，我们只好坐大巴绕路回去。",
)
