"""Which device a model runs on."""

import torch

from memory.errors import ConfigError


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
