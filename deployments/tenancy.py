"""Tenants are declared by files: one a tenant, reviewed like code. Secrets stay references."""

import os
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from deployments.edge.credentials import Pepper, key_digest, new_key, split_key
from deployments.strict_yaml import parse, read_yaml
from memory.errors import ConfigError, InvalidInput
from memory.ids import TenantId, checked_id
from memory.policy import Policy
from memory.scope import Grant, system_scope
from storage.protocols import KeyRecord, TenantRecord, TenantStore
from storage.secrets import read_secret


class KeyFile(BaseModel):
    """One key of a tenant. `secret` is a reference to the whole key (`sk_<id>_<secret>`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, max_length=100)
    secret: str = Field(description="`env:NAME` or `file:/path` (a relative path is under the home).")
    grants: frozenset[Grant] = frozenset({Grant.MEMORY})
    expires_at: datetime | None = None
    generate: bool = Field(default=False, description="Make the file with a new key where it is missing (development).")


class TenantFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    display_name: str = Field(default="", max_length=200)
    suspended: bool = False
    policy: Policy = Policy()
    keys: tuple[KeyFile, ...] = ()


def read_tenant_file(path: Path) -> TenantFile:
    """ConfigError names file, key and fix."""
    tenant = parse(TenantFile, read_yaml(path), str(path))
    try:
        checked_id(tenant.id, "id")
    except InvalidInput as error:
        raise ConfigError(str(path), error.detail) from None
    for key in tenant.keys:
        if Grant.SYSTEM in key.grants:
            raise ConfigError(str(path), "`keys.grants`: `system` is Strata's own and never a key's")
    return tenant


def read_tenant_files(folder: Path) -> list[TenantFile]:
    """Every *.yaml in `folder`, by name. Two files for one tenant are an error."""
    files = sorted(folder.glob("*.yaml"))
    tenants = [read_tenant_file(path) for path in files]
    seen: dict[str, Path] = {}
    for path, tenant in zip(files, tenants, strict=True):
        if tenant.id in seen:
            raise ConfigError(str(path), f"`id`: tenant {tenant.id} is declared in {seen[tenant.id].name} as well")
        seen[tenant.id] = path
    return tenants


def secret_reference(reference: str, home: Path) -> str:
    """A `file:` reference with a relative path is under the home."""
    scheme, _, rest = reference.partition(":")
    if scheme == "file" and rest and not Path(rest).is_absolute():
        return f"file:{home / rest}"
    return reference


def write_private(path: Path, text: str) -> bool:
    """Makes `path` holding `text`, readable by its owner alone. False where it was there already."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    with os.fdopen(descriptor, "w") as file:
        file.write(text + "\n")
    return True


def key_text(key: KeyFile, home: Path) -> str:
    """The key itself, made first where the file says so."""
    reference = secret_reference(key.secret, home)
    if key.generate and reference.startswith("file:"):
        write_private(Path(reference.removeprefix("file:")), new_key())
    return read_secret(reference)


async def declare(store: TenantStore, tenant: TenantFile, home: Path, pepper: Pepper) -> bool:
    """Makes the store equal to the file, atomically. True where anything changed."""
    keys = []
    for key in tenant.keys:
        key_id, secret = split_key(key_text(key, home))
        keys.append(
            KeyRecord(
                id=key_id,
                tenant_id=TenantId(tenant.id),
                name=key.name,
                digest=key_digest(secret, pepper),
                grants=key.grants,
                expires_at=key.expires_at,
            )
        )
    record = TenantRecord(
        id=TenantId(tenant.id),
        display_name=tenant.display_name or tenant.id,
        policy=tenant.policy.model_dump(mode="json", exclude_defaults=True),
        version=0,
        suspended=tenant.suspended,
    )
    return await store.apply(system_scope(), record, keys)
