"""How preparing a model tells how far it is."""

from collections.abc import Callable

Progress = Callable[[str, float], None]
"""(stage, share done 0..1). Stages come in the order "weights", "tokenizer", "means", "statistics"; some may be left out."""


def silent(stage: str, done: float) -> None:
    """The progress callback of those who do not watch."""
