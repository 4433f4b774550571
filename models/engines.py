"""How the texts of a batch are laid out for a network: one behind the other, or padded to common lengths.

Both give the last hidden states in one shape, [tokens, dimension] without any padding, so that what follows is the same code.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

import torch
from torch import Tensor

from models.bert import BertPass
from models.padding import padded_groups

BATCH_TOKENS = {"cpu": 512, "cuda": 32_768, "mps": 8192}
"""Tokens in a forward pass: a CPU gains nothing above this, and whoever comes next waits for all of it."""
LAUNCH_TOKENS = {"cpu": 32, "cuda": 4096, "mps": 512}
"""What starting a forward pass costs by a model's own code, in tokens' worth of time."""
_PACKED_LAUNCH_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a network reads for one text. `types` tell the two sides of a pair apart; none: all 0."""

    ids: list[int]
    types: list[int] | None = None

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Shapes:
    """To which lengths and numbers of texts a batch is filled up, so that a device meets few different shapes.

    `lengths` ascend; what is longer than the last keeps its own length. Without any, nothing is filled up.
    """

    lengths: tuple[int, ...] = ()

    def length(self, tokens: int) -> int:
        return next((length for length in self.lengths if length >= tokens), tokens)

    def texts(self, count: int) -> int:
        """The next power of two."""
        return 1 << (count - 1).bit_length() if self.lengths else count


EXACT = Shapes()
FEW = Shapes((16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512))
"""Steps of at most half: a text of average length is filled up by a fifth, and eleven lengths are few enough to record each."""


Head = Callable[[Tensor], Tensor]
"""What judges a text by its first token: [texts, dimension] -> [texts, labels]."""


class Engine(Protocol):
    """A network with its layout. `run` answers in groups: which texts, and their tokens' hidden states one behind the other, or,
    where it ends in a head, [texts, labels]."""

    dtype: torch.dtype
    launch_tokens: int
    """What starting a pass costs, in tokens' worth of time."""

    def reads(self, tokens: int) -> int:
        """How many tokens the device reads for a text of so many."""

    def run(self, texts: Sequence[Tokens]) -> Iterator[tuple[list[int], Tensor]]:
        """(indices, result in the network's number format), each text in exactly one group."""


class Packed:
    """Without padding, for CPUs: texts of equal length stand together, and only attention sees where one ends."""

    launch_tokens = _PACKED_LAUNCH_TOKENS

    def __init__(self, network: BertPass, budget: int, head: Head | None = None) -> None:
        """`budget`: tokens in one pass."""
        self.dtype = network.dtype
        self._network = network
        self._budget = budget
        self._head = head

    def reads(self, tokens: int) -> int:
        return tokens

    def run(self, texts: Sequence[Tokens]) -> Iterator[tuple[list[int], Tensor]]:
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        begin = 0
        while begin < len(order):
            end, tokens = begin, 0
            while end < len(order) and (end == begin or tokens + len(texts[order[end]]) <= self._budget):
                tokens += len(texts[order[end]])
                end += 1
            rows = order[begin:end]
            yield rows, self._pass([texts[row] for row in rows])
            begin = end

    @torch.inference_mode()
    def _pass(self, group: list[Tokens]) -> Tensor:
        lengths = [len(text) for text in group]
        runs = [(len(list(equal)), length) for length, equal in groupby(lengths)]
        ids = torch.tensor([token for text in group for token in text.ids])
        positions = torch.tensor([position for length in lengths for position in range(length)])
        types = _types(group, len(ids))
        if self._head is None:
            return self._network.packed(ids, positions, types, runs)
        return self._head(self._network.packed(ids, positions, types, runs, first=torch.tensor(_begins(lengths))))


class Forward(Protocol):
    """A network over a rectangle of texts: ids, types (int64) and attention (bool), [texts, tokens] each, on its device."""

    def __call__(self, ids: Tensor, types: Tensor, attention: Tensor, /) -> Tensor:
        """[texts, tokens, dimension]"""


class Padded:
    """Filled up to common lengths, for accelerators and for networks of any class."""

    def __init__(
        self,
        forward: Forward,
        *,
        dtype: torch.dtype,
        device: torch.device,
        pad_id: int,
        budget: int,
        shapes: Shapes = EXACT,
        head: Head | None = None,
    ) -> None:
        self.dtype = dtype
        self._forward = forward
        self._device = device
        self._pad_id = pad_id
        self._budget = budget
        self.launch_tokens = LAUNCH_TOKENS[device.type]
        self._shapes = shapes
        self._head = head

    def reads(self, tokens: int) -> int:
        return self._shapes.length(tokens)

    def run(self, texts: Sequence[Tokens]) -> Iterator[tuple[list[int], Tensor]]:
        for rows in padded_groups([self.reads(len(text)) for text in texts], self._budget, self.launch_tokens):
            yield rows, self._pass([texts[row] for row in rows])

    @torch.inference_mode()
    def _pass(self, group: list[Tokens]) -> Tensor:
        lengths = [len(text) for text in group]
        width = self.reads(max(lengths))
        height = self._shapes.texts(len(group))
        ids = torch.full((height, width), self._pad_id)
        types = torch.zeros((height, width), dtype=torch.long)
        attention = torch.zeros((height, width), dtype=torch.bool)
        attention[:, 0] = True  # rows that only fill up attend to something: softmax over nothing is not a number
        for row, text in enumerate(group):
            ids[row, : len(text)] = torch.tensor(text.ids)
            attention[row, : len(text)] = True
            if text.types is not None:
                types[row, : len(text)] = torch.tensor(text.types)
        hidden = self._forward(self._there(ids), self._there(types), self._there(attention))
        if self._head is not None:
            return self._head(hidden[: len(group), 0])
        kept = [row * width + i for row, length in enumerate(lengths) for i in range(length)]
        return hidden.flatten(0, 1)[self._there(torch.tensor(kept))]

    def _there(self, tensor: Tensor) -> Tensor:
        """To the device: from memory that it can read by itself, so that the copy waits for nobody."""
        if self._device.type == "cuda":
            return tensor.pin_memory().to(self._device, non_blocking=True)
        return tensor.to(self._device)


def _types(group: Sequence[Tokens], tokens: int) -> Tensor:
    if all(text.types is None for text in group):
        return torch.zeros(tokens, dtype=torch.long)
    return torch.tensor([kind for text in group for kind in text.types or [0] * len(text)])


def _begins(lengths: Sequence[int]) -> list[int]:
    begins, at = [], 0
    for length in lengths:
        begins.append(at)
        at += length
    return begins
