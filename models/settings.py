"""What an operator may say about the models. Importing this loads no torch: builders and the command line read it."""

import os
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

DEFAULT_MODEL = "multilingual-e5-small"


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class EncoderSettings(_Settings):
    """The embedding model of a replica. Whatever is left out is read from the model, or measured."""

    model: str = Field(
        default=DEFAULT_MODEL, description="The bundled model's name, a local folder, or a Hugging Face id."
    )
    folder: Path | None = Field(
        default=None, description="A folder that is already prepared; then `model` and `home` are not used."
    )
    home: Path | None = Field(default=None, description="Prepared models are kept in `home`/models.")
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto", description="auto: bfloat16 where a probe at start finds it faster and as good."
    )
    query_prefix: str | None = Field(default=None, max_length=1000, description="Overrides the model's own.")
    passage_prefix: str | None = Field(default=None, max_length=1000, description="Overrides the model's own.")
    dimension: int | None = Field(default=None, ge=4, description="Start-up stops when the model has another one.")
    batch_tokens: int | None = Field(
        default=None, ge=1, le=4_000_000, description="Padded tokens in one forward pass; by device where left out."
    )
    max_queue_items: int = Field(default=4096, ge=1, le=1_000_000, description="Texts waiting at most, in a replica.")
    max_wait_s: float = Field(
        default=0.25,
        gt=0,
        le=60,
        description="A question that would wait longer is refused at once: its caller goes on with keywords.",
    )
    threads: int = Field(default=1, ge=1, le=256, description="Threads of one forward pass on a CPU.")
    device: str = Field(default="auto", pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")


class RerankerSettings(_Settings):
    """A cross-encoder that judges pairs of question and passage. Off where `model` is not named."""

    model: str = Field(min_length=1, description="A local folder or a Hugging Face id of a sequence classifier.")
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto", description="auto: bfloat16 where a probe at start finds it faster and as good."
    )
    max_tokens: int = Field(default=512, ge=8, le=32_768, description="Of one pair; the passage's tail is cut first.")
    batch_tokens: int | None = Field(default=None, ge=1, le=4_000_000)
    max_queue_items: int = Field(default=4096, ge=1, le=1_000_000)
    max_wait_s: float = Field(
        default=2.0,
        gt=0,
        le=60,
        description="Pairs that would wait longer are refused at once: the order stays as it was.",
    )
    threads: int = Field(default=1, ge=1, le=256)
    device: str = Field(default="auto", pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")


class SummarizerSettings(_Settings):
    """A chat model, in this process (`model` alone) or behind any OpenAI-compatible endpoint (`url` too)."""

    model: str = Field(min_length=1, description="A local folder or a Hugging Face id; with `url`, that server's name.")
    url: str | None = Field(default=None, pattern=r"^https?://[^\s?#]+$", description="Up to and without /chat/...")
    api_key: str | None = Field(
        default=None, pattern=r"^(env:[A-Za-z_][A-Za-z0-9_]*|file:/.+)$", description="A reference, never the key."
    )
    gguf_file: str | None = Field(default=None, description="A GGUF file in the folder, in place of safetensors.")
    max_new_tokens: int = Field(default=512, ge=1, le=32_768)
    max_prompt_tokens: int = Field(default=8192, ge=16, le=1_000_000)
    temperature: float = Field(default=0.0, ge=0.0, le=2.0)
    attempts: int = Field(default=3, ge=1, le=10, description="Tries at most, within the caller's deadline.")
    max_waiting: int = Field(default=64, ge=1, le=10_000)
    threads: int = Field(default=1, ge=1, le=256)
    dtype: Literal["float32", "bfloat16"] = "float32"
    device: str = Field(default="auto", pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")


def strata_home(home: Path | None = None) -> Path:
    """`home`, else $STRATA_HOME, else ~/.cache/strata."""
    return home or Path(os.environ.get("STRATA_HOME") or "~/.cache/strata").expanduser()
