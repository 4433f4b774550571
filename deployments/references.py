"""What the settings of the stores refer to: the home, addresses, secrets. Anything that is wrong is a ConfigError of one line."""

import base64
import os
import secrets as random_secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deployments.edge.credentials import Pepper, TokenKeys
from deployments.settings import StoreSettings
from deployments.tenancy import secret_reference, write_private
from memory.errors import ConfigError
from storage.keys import MasterKey
from storage.receipts import ReceiptSigner
from storage.secrets import read_secret
from storage.sessions.valkey_server import ensure_running


def check_home(home: Path) -> None:
    """Makes the home; ConfigError where it cannot be written."""
    probe = home / f".write-{os.getpid()}"
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise ConfigError(
            str(home), f"cannot be written ({error.strerror}); set STRATA_HOME to a folder that you own"
        ) from None


def records_url(settings: StoreSettings) -> str:
    if settings.records_url != "embedded":
        return dereferenced(settings.records_url, settings.home)
    return f"sqlite:///{settings.home / 'data' / 'records.db'}"


def sessions_url(settings: StoreSettings) -> str:
    """The URL of the session tier; starts or re-attaches the bundled server where that is asked for."""
    if settings.sessions_url == "bundled":
        return ensure_running(settings.home)
    return dereferenced(settings.sessions_url, settings.home)


def dereferenced(value: str, home: Path) -> str:
    """What a setting says, or what the reference in it names."""
    return read_secret(secret_reference(value, home)) if value.startswith(("env:", "file:")) else value


def refuse_passwords(settings: StoreSettings) -> None:
    """ConfigError where a URL in a configuration file has a password in it."""
    for name in ("records_url", "sessions_url"):
        _, _, rest = getattr(settings, name).partition("://")
        user, at, _ = rest.partition("/")[0].rpartition("@")
        if at and ":" in user:
            raise ConfigError(
                f"stores.{name}", "has a password in it; keep the URL in a secret and write env:NAME here"
            )


def _secret(settings: StoreSettings, reference: str | None, name: str, make: Callable[[], str]) -> str:
    """The secret behind `reference`; without one, the home's own, made at the first start."""
    if reference is None:
        write_private(settings.home / "secrets" / name, make())
        reference = f"file:{settings.home / 'secrets' / name}"
    return read_secret(secret_reference(reference, settings.home))


def _random_key() -> str:
    return base64.b64encode(random_secrets.token_bytes(32)).decode()


@dataclass(frozen=True)
class Secrets:
    """Every secret, read."""

    master: MasterKey
    pepper: Pepper
    token_keys: TokenKeys
    receipts: ReceiptSigner


def read_secrets(settings: StoreSettings) -> Secrets:
    """ConfigError names the reference that cannot be read, or the setting whose secret is of the wrong shape."""
    given = settings.secrets
    references: dict[str, str | None] = dict(given.token_keys) if given.token_keys else {"k1": None}
    signing = given.token_key_id or sorted(references)[-1]
    return Secrets(
        MasterKey.from_base64(_secret(settings, given.master_key, "master.key", _random_key)),
        Pepper(_secret(settings, given.pepper, "pepper.key", _random_key).encode()),
        TokenKeys(
            {kid: _secret(settings, one, f"token-{kid}.key", _random_key) for kid, one in references.items()}, signing
        ),
        ReceiptSigner.from_base64(_secret(settings, given.receipt_key, "receipt.key", _random_key)),
    )
