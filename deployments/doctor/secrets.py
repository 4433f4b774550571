"""Whether every secret is there and has the right shape. None is shown, and none is made."""

import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from deployments.doctor.findings import Finding, bad, ok, warn
from deployments.edge.credentials import Pepper, TokenKeys
from deployments.settings import StoreSettings
from deployments.tenancy import secret_reference
from memory.errors import ConfigError
from storage.keys import MasterKey
from storage.receipts import ReceiptSigner
from storage.secrets import read_secret

Shape = Callable[[str], object]


def secrets(settings: StoreSettings) -> Iterator[Finding]:
    given = settings.secrets
    yield from _one(settings, "master_key", given.master_key, "master.key", MasterKey.from_base64)
    yield from _one(settings, "pepper", given.pepper, "pepper.key", lambda text: Pepper(text.encode()))
    yield from _one(settings, "receipt_key", given.receipt_key, "receipt.key", ReceiptSigner.from_base64)
    token_keys: dict[str, str | None] = dict(given.token_keys) if given.token_keys else {"k1": None}
    for kid, reference in token_keys.items():
        yield from _one(settings, f"token_keys.{kid}", reference, f"token-{kid}.key", _signing)
    if given.token_key_id is not None and given.token_key_id not in (given.token_keys or {}):
        yield bad("secrets.token_key_id", "names none of secrets.token_keys", "name one of them, the one that signs")
    if settings.index != "local" and settings.index.api_key is not None:
        yield from _one(settings, "index.api_key", settings.index.api_key, "", str)
    for name, value in (("records_url", settings.records_url), ("sessions_url", settings.sessions_url)):
        if value.startswith(("env:", "file:")):
            yield from _one(settings, name, value, "", str)


def _one(settings: StoreSettings, name: str, reference: str | None, own: str, shape: Shape) -> Iterator[Finding]:
    part = f"secrets.{name}"
    if reference is None:
        if settings.records_url != "embedded":
            fix = f"set {part} to a reference (env:NAME or file:/path) that is the same for every replica"
            yield bad(part, "is not set: every machine would make its own", fix)
            return
        if not (settings.home / "secrets" / own).exists():
            yield ok(part, "is made at the first start")
            return
        reference = f"file:{settings.home / 'secrets' / own}"
    reference = secret_reference(reference, settings.home)
    try:
        shape(read_secret(reference, part))
    except ConfigError as error:
        yield bad(part, "cannot be used", f"{error.where}: {error.fix}")
        return
    path = Path(reference.removeprefix("file:"))
    if reference.startswith("file:") and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        yield warn(part, "others on this machine may read its file", f"chmod 600 {path}")
        return
    yield ok(part, "is there")


def _signing(text: str) -> TokenKeys:
    return TokenKeys({"k": text}, "k")
