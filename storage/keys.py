"""Users' keys, wrapped: what SQL holds is useless without the master key, and what an index holds without the user's.

A wrapped key is one version byte, 4 bytes that name the master key, a 12-byte nonce and AES-256-GCM's output; the tenant and the
user's internal reference are authenticated with it, so that a key moved to another row does not open.
"""

import base64
import binascii
import hashlib
import secrets
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from memory.errors import ConfigError
from memory.ids import TenantId, UserRef, derived_id
from memory.seal import KEY_BYTES
from storage.protocols import UserKey

_VERSION = b"\x01"
_ID_BYTES = 4
_NONCE_BYTES = 12
_HEAD = len(_VERSION) + _ID_BYTES
_WRAPPED_BYTES = _HEAD + _NONCE_BYTES + KEY_BYTES + 16


def _key_id(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=_ID_BYTES, person=b"strata.keyid").digest()


def _associated(tenant_id: TenantId, ref: UserRef) -> bytes:
    return f"strata.userkey\x1f{tenant_id}\x1f{ref}".encode()


@dataclass(frozen=True)
class MasterKey:
    """`current` wraps; `older` ones still open what they wrapped, until every key was wrapped anew (rotation)."""

    current: bytes = field(repr=False)
    older: tuple[bytes, ...] = field(default=(), repr=False)

    @classmethod
    def from_base64(cls, text: str, setting: str = "secrets.master_key") -> "MasterKey":
        """32 bytes in base64; several, newest first, separated by commas or white space, while a rotation lasts."""
        try:
            keys = [base64.b64decode(part, validate=True) for part in text.replace(",", " ").split()]
        except (binascii.Error, ValueError):
            keys = []
        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise ConfigError(
                setting, f"use {KEY_BYTES} random bytes in base64, as `openssl rand -base64 {KEY_BYTES}` prints"
            )
        return cls(keys[0], tuple(keys[1:]))

    def wrap(self, key: bytes, tenant_id: TenantId, ref: UserRef) -> bytes:
        """`key` (32 bytes) under the current master key, bound to this tenant and reference."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = AESGCM(self.current).encrypt(nonce, key, _associated(tenant_id, ref))
        return _VERSION + _key_id(self.current) + nonce + sealed

    def unwrap(self, wrapped: bytes, tenant_id: TenantId, ref: UserRef) -> bytes:
        """The key. ConfigError where no configured master key wrapped it, or where it is damaged or another user's."""
        if len(wrapped) != _WRAPPED_BYTES or wrapped[:1] != _VERSION:
            raise ConfigError("user key", "is damaged or of a newer version; restore the records or upgrade")
        key_id, nonce, sealed = wrapped[1:_HEAD], wrapped[_HEAD : _HEAD + _NONCE_BYTES], wrapped[_HEAD + _NONCE_BYTES :]
        for master in (self.current, *self.older):
            if _key_id(master) == key_id:
                try:
                    return AESGCM(master).decrypt(nonce, sealed, _associated(tenant_id, ref))
                except InvalidTag:
                    raise ConfigError(
                        "user key", "does not open: damaged, or moved from another user; restore the records"
                    ) from None
        raise ConfigError(
            "secrets.master_key",
            "a user's key was wrapped under another master key; add the former one after the new one",
        )

    def rewrapped(self, wrapped: bytes, tenant_id: TenantId, ref: UserRef) -> bytes | None:
        """`wrapped` under the current master key; None where it already is. The index is not touched by it."""
        if wrapped[1:_HEAD] == _key_id(self.current):
            return None
        return self.wrap(self.unwrap(wrapped, tenant_id, ref), tenant_id, ref)


def make_user_key(master: MasterKey, tenant_id: TenantId) -> UserKey:
    """A new random key and a new random reference, which says nothing of the user."""
    ref = UserRef(derived_id("u", secrets.token_hex(32)))
    return UserKey(ref, master.wrap(secrets.token_bytes(KEY_BYTES), tenant_id, ref))
