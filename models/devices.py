"""Which device and which number format a model runs in."""

import copy
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from memory.errors import ConfigError

AS_GOOD = 0.999
"""Least cosine between a vector in bfloat16 and the same in float32."""
FASTER = 0.9
"""bfloat16 must take less than this share of float32's time; a tie is noise."""
_ROUNDS = 4


def choose_device(name: str) -> torch.device:
    """`auto`: the first CUDA device where there is one, else the CPU. A device that is not there is a ConfigError."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(name)
    here = {
        "cpu": True,
        "cuda": torch.cuda.is_available() and (device.index or 0) < max(torch.cuda.device_count(), 1),
        "mps": torch.backends.mps.is_available(),
    }
    if not here[device.type]:
        raise ConfigError("device", f"{name} is not on this machine; use auto")
    return device


def probe_bfloat16(model: nn.Module, pooled: Callable[[nn.Module], Tensor]) -> nn.Module:
    """`model` (float32) or its bfloat16 copy: the copy where it is clearly faster here and says the same.

    `pooled(model)` runs one small batch and gives float32 [texts, dimension], unit length. Runs alternate, the best of each
    counts, and on a CPU it is the processor time of this process that counts: a busy neighbour must not decide.
    """
    on_cpu = next(model.parameters()).device.type == "cpu"
    clock = time.process_time if on_cpu else time.perf_counter
    half = copy.deepcopy(model).to(torch.bfloat16)
    try:
        agreement = (pooled(model) * pooled(half)).sum(dim=1).min().item()
    except RuntimeError:  # an operator that this device lacks in bfloat16
        return model
    if not agreement >= AS_GOOD:
        return model
    best = {id(model): float("inf"), id(half): float("inf")}
    for _ in range(_ROUNDS):
        for candidate in (model, half):
            start = clock()
            pooled(candidate).cpu()
            best[id(candidate)] = min(best[id(candidate)], clock() - start)
    return half if best[id(half)] < FASTER * best[id(model)] else model
