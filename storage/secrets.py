"""Secrets are references in every configuration file, never values: `env:NAME` or `file:/path`."""

import os
from pathlib import Path

from memory.errors import ConfigError

_MAX_BYTES = 65_536


def read_secret(reference: str, setting: str = "secret") -> str:
    """What `reference` names, without white space around it. ConfigError says what to do, and never repeats a value."""
    scheme, _, name = reference.partition(":")
    if scheme == "env" and name:
        value = os.environ.get(name)
        if value is None:
            raise ConfigError(reference, "this environment variable is not set; set it, or use file:/path")
    elif scheme == "file" and name:
        value = _read_file(reference, Path(name))
    else:  # the reference itself is not shown: it may be a secret that somebody pasted here
        raise ConfigError(setting, "write a reference, `env:NAME` or `file:/path`, not the secret itself")
    value = value.strip()
    if not value:
        raise ConfigError(reference, "is empty; put the secret there")
    return value


def _read_file(reference: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(reference, f"cannot be read ({error.strerror}); check the path and its owner") from None
    if len(raw) > _MAX_BYTES:
        raise ConfigError(reference, f"is over {_MAX_BYTES} bytes; is it the right file?")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise ConfigError(reference, "is not UTF-8 text; write the secret as text (keys as base64)") from None
