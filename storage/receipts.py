"""Signed receipts: anyone who has the public key can check what was erased, when, and that nobody changed the paper since.

The signature is a compact JWS (RFC 7515) with EdDSA over Ed25519 (RFC 8037); its payload is the receipt itself as canonical JSON:
UTF-8, keys sorted, no white space, without the member `signature`.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.api_jws import PyJWS

from memory.errors import ConfigError

ALGORITHM = "EdDSA"
TYPE = "strata-receipt+jws"
SIGNATURE = "signature"
_KEY_BYTES = 32

_jws = PyJWS(algorithms=[ALGORITHM])


def canonical(document: Mapping[str, Any]) -> bytes:
    """What is signed: the document without its signature, always the same bytes for the same content."""
    content = {name: value for name, value in document.items() if name != SIGNATURE}
    return json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


@dataclass(frozen=True)
class ReceiptSigner:
    """Holds the private key. `kid` is the key's RFC 7638 thumbprint, so that a reader finds the right one after a rotation."""

    _key: Ed25519PrivateKey = field(repr=False)

    @classmethod
    def from_base64(cls, text: str, setting: str = "secrets.receipt_key") -> "ReceiptSigner":
        """The 32 bytes of an Ed25519 private key in base64. ConfigError otherwise."""
        try:
            raw = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raw = b""
        if len(raw) != _KEY_BYTES:
            raise ConfigError(
                setting, f"use {_KEY_BYTES} random bytes in base64, as `openssl rand -base64 {_KEY_BYTES}` prints"
            )
        return cls(Ed25519PrivateKey.from_private_bytes(raw))

    @property
    def public_jwk(self) -> dict[str, str]:
        """The public key as a JWK (RFC 7517, RFC 8037)."""
        required = {"crv": "Ed25519", "kty": "OKP", "x": _unpadded(self._public())}
        return {**required, "kid": self.kid, "alg": ALGORITHM, "use": "sig"}

    @property
    def kid(self) -> str:
        thumbprint = canonical({"crv": "Ed25519", "kty": "OKP", "x": _unpadded(self._public())})
        return _unpadded(hashlib.sha256(thumbprint).digest())

    def sign(self, document: Mapping[str, Any]) -> str:
        """A compact JWS over `document`, whose payload it carries. The same document always gets the same signature."""
        return _jws.encode(canonical(document), self._key, ALGORITHM, headers={"typ": TYPE, "kid": self.kid})

    def _public(self) -> bytes:
        return self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def _unpadded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
