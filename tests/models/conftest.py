"""Small helpers for the tests of models."""

import pytest

from memory.encoding import Passage
from models.encoder import Encoder
from models.measuring import sample


@pytest.fixture(scope="session")
def sentences() -> list[str]:
    """Everyday sentences of all lengths, Chinese and English in turn."""
    lines = sample()
    chinese = [line for line in lines if any("\u4e00" <= c <= "\u9fff" for c in line)]
    english = [line for line in lines if line not in chinese]
    return [line for pair in zip(chinese, english, strict=False) for line in pair]


@pytest.fixture(scope="session")
def exact_encoder() -> Encoder:
    """The default model in float32: what differs there differs in our code, not in rounding."""
    from models.encoder import EncoderSettings

    return Encoder.load(EncoderSettings(dtype="float32"))


def passages(*texts: str) -> list[Passage]:
    return [Passage(text) for text in texts]
