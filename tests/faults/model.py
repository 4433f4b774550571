"""A tiny transformer of the real classes, prepared like any model: loads in 20 ms, so that a process may be killed at every step."""

from pathlib import Path

from models.settings import EncoderSettings


def prepared_model(folder: Path, dimension: int = 16) -> Path:
    """The prepared folder of a model with `dimension` dimensions, made below `folder`."""
    from models.prepare import prepare
    from tests.models.tiny import save_embedder

    source = folder / f"tiny{dimension}"
    source.mkdir(parents=True, exist_ok=True)
    return prepare(settings(save_embedder(source, dimension)), folder)


def settings(model: Path) -> EncoderSettings:
    return EncoderSettings(model=str(model), dtype="float32")


def load(folder: Path) -> "object":
    """The embedding model of a prepared folder, in this process."""
    import torch

    from deployments.in_process import InProcessEmbedder
    from models.encoder import Encoder

    torch.set_num_threads(1)
    return InProcessEmbedder(Encoder.load(EncoderSettings(folder=folder, dtype="float32")))
