"""Which way of running a network is taken: the fastest of those that say the same, tried out on this machine when it starts."""

import copy
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from models.bert import BertPass
from models.engines import FEW, Engine, Forward, Head, Packed, Padded
from models.replay import CudaGraphs, Replayed, plain_recording

log = logging.getLogger(__name__)

FASTER = 0.9
"""bfloat16 must take less than this share of float32's time; a tie is noise."""
_ROUNDS = 4

DType = Literal["auto", "float32", "bfloat16"]
Layout = Literal["packed", "padded", "recorded"]
Outcome = Callable[[Engine], Tensor]
"""What the probe's texts come to with an engine, on the CPU: [texts, ...] in float32."""
Distance = Callable[[Tensor, Tensor], float]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a network runs: `budget` tokens in one pass, filled up with `pad_id` where it is padded."""

    device: torch.device
    pad_id: int
    budget: int

    @property
    def clock(self) -> Callable[[], float]:
        """On a CPU it is the processor time of this process that counts: a busy neighbour must not decide."""
        return time.process_time if self.device.type == "cpu" else time.perf_counter


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a way may be from transformers' own in float32: the same arithmetic in another order, and in bfloat16."""

    float32: float
    bfloat16: float


class Ways(Protocol):
    """How one network can be run. RuntimeError where this device cannot."""

    def original(self, dtype: torch.dtype) -> Engine:
        """By transformers' own modelling code."""

    def own(self, dtype: torch.dtype) -> Engine | None:
        """By ours, for the classes that it knows."""


def choose(
    ways: Ways, dtype: DType, outcome: Outcome, distance: Distance, limits: Limits, clock: Callable[[], float]
) -> Engine:
    """Ours where it agrees with transformers', in bfloat16 where that agrees too and is clearly faster here.

    Runs alternate, and the best of each counts. `dtype` other than auto is taken as said.
    """
    best: Engine = ways.original(torch.float32)
    truth = outcome(best)

    def agrees(engine: Engine | None, limit: float) -> bool:
        try:
            return engine is not None and distance(outcome(engine), truth) <= limit  # false of a NaN, too
        except RuntimeError:  # an operator that this device lacks in this format
            return False

    ours = ways.own(torch.float32)
    if agrees(ours, limits.float32):
        assert ours is not None
        best = ours
    elif ours is not None:
        log.warning("the network is run by transformers' own code: ours differs from it on this machine")
    if dtype == "float32":
        return best
    half = (ways.own if best is ours else ways.original)(torch.bfloat16)
    assert half is not None
    if dtype == "bfloat16":
        return half
    if not agrees(half, limits.bfloat16):
        return best
    least = {"half": float("inf"), "best": float("inf")}
    for _ in range(_ROUNDS):
        for name, engine in (("best", best), ("half", half)):
            start = clock()
            outcome(engine)
            least[name] = min(least[name], clock() - start)
    return half if least["half"] < FASTER * least["best"] else best


class EncoderWays:
    """Of an encoder whose every token's state is wanted."""

    def __init__(self, network: nn.Module, place: Place) -> None:
        self._network = network
        self._place = place

    def original(self, dtype: torch.dtype) -> Engine:
        network = self._network if dtype == torch.float32 else copy.deepcopy(self._network).to(dtype)

        def forward(ids: Tensor, types: Tensor, attention: Tensor, /) -> Tensor:
            hidden: Tensor = network(input_ids=ids, attention_mask=attention.long()).last_hidden_state
            return hidden

        return padded(forward, dtype, self._place)

    def own(self, dtype: torch.dtype) -> Engine | None:
        return own(self._network, dtype, self._place) if BertPass.knows(self._network) else None


def padded(forward: Forward, dtype: torch.dtype, place: Place, head: Head | None = None) -> Padded:
    """A network of any class, padded to the longest of each group."""
    return Padded(forward, dtype=dtype, device=place.device, pad_id=place.pad_id, budget=place.budget, head=head)


def own(
    encoder: nn.Module, dtype: torch.dtype, place: Place, head: Head | None = None, layout: Layout | None = None
) -> Engine:
    """An encoder that BertPass knows: packed on a CPU, recorded in few shapes where there are CUDA graphs, else padded."""
    network = BertPass(encoder, dtype)
    by_device: dict[str, Layout] = {"cpu": "packed", "cuda": "recorded"}
    layout = layout or by_device.get(place.device.type, "padded")
    if layout == "packed":
        return Packed(network, place.budget, head)
    if layout == "padded":
        return padded(network.padded, dtype, place, head)
    recorder = CudaGraphs(place.device) if place.device.type == "cuda" else plain_recording
    return Padded(
        Replayed(network.padded, recorder),
        dtype=dtype,
        device=place.device,
        pad_id=place.pad_id,
        budget=place.budget,
        shapes=FEW,
        head=head,
    )
