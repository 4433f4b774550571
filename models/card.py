"""`strata.json`: what makes a model folder a prepared one.

It stands beside the model (or names the folder where the model lies) and holds what was found out once: the model's card, how it
pools, its two means (in `means.npy`) and how it scores unrelated texts.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from memory.calibration import ModelStatistics
from memory.encoding import ModelCard
from memory.errors import ConfigError

FORMAT = 1
CARD_FILE = "strata.json"
MEANS_FILE = "means.npy"
Pooling = Literal["mean", "cls"]


class Likeness(TypedDict):
    """Mean and standard deviation of a score over pairs of unrelated texts."""

    mean: float
    std: float


@dataclass(frozen=True, slots=True)
class PreparedModel:
    """`source` is where the model's own files are. `means` is float32 [2, dimension]: of passages' tokens, of questions' tokens.
    `statistics` are of unrelated question-passage pairs, `passage_pairs` of the pooled cosine of two unrelated passages.
    `files` are the sizes of the model's files in bytes, so that a cut-off copy is noticed at the start and not in an answer."""

    source: Path
    card: ModelCard
    pooling: Pooling
    means: NDArray[np.float32]
    statistics: ModelStatistics
    passage_pairs: Likeness
    files: dict[str, int]


def model_files(folder: Path) -> dict[str, int]:
    """Name -> bytes of the files that a model is loaded from."""
    wanted = (".safetensors", ".json", ".model", ".txt")
    return {
        path.name: path.stat().st_size
        for path in sorted(folder.iterdir())
        if path.is_file() and path.suffix in wanted and path.name != CARD_FILE
    }


def is_prepared(folder: Path) -> bool:
    return (folder / CARD_FILE).is_file()


def write_prepared(folder: Path, model: PreparedModel) -> None:
    """`strata.json` comes last: a folder that has one is whole."""
    np.save(folder / MEANS_FILE, model.means, allow_pickle=False)
    content: dict[str, Any] = {
        "format": FORMAT,
        "source": None if model.source == folder else str(model.source),
        "card": asdict(model.card),
        "pooling": model.pooling,
        "statistics": asdict(model.statistics),
        "passage_pairs": model.passage_pairs,
        "files": model.files,
    }
    (folder / CARD_FILE).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_prepared(folder: Path) -> PreparedModel:
    """A folder that is missing, not prepared, of another format, or damaged is a ConfigError."""
    if not folder.is_dir():
        raise ConfigError(str(folder), "is no folder; name a prepared one, or leave `folder` out and name the `model`")
    if not is_prepared(folder):
        raise ConfigError(str(folder), f"has no {CARD_FILE}; prepare the model first (settings: `model`, not `folder`)")
    broken = "is damaged; delete this folder, it is prepared again at the next start"
    try:
        content = json.loads((folder / CARD_FILE).read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ConfigError(
                str(folder), "was prepared by another version; delete it, it is prepared again at the next start"
            )
        card = ModelCard(**content["card"])
        with (folder / MEANS_FILE).open("rb") as file:
            means = np.lib.format.read_array(file, allow_pickle=False)
        model = PreparedModel(
            source=Path(content["source"]) if content["source"] else folder,
            card=card,
            pooling=content["pooling"],
            means=means,
            statistics=ModelStatistics(**content["statistics"]),
            passage_pairs=content["passage_pairs"],
            files=content["files"],
        )
    except (OSError, ValueError, KeyError, TypeError) as bad:
        raise ConfigError(str(folder), broken) from bad
    if means.shape != (2, card.dimension) or means.dtype != np.float32 or not np.isfinite(means).all():
        raise ConfigError(str(folder), broken)
    if not model.source.is_dir():
        raise ConfigError(str(model.source), f"is gone, but {folder / CARD_FILE} needs it; put the model back")
    now = model_files(model.source)
    if any(now.get(name) != size for name, size in model.files.items()):
        raise ConfigError(str(folder), "holds other files than when it was prepared; delete it and start again")
    return model
