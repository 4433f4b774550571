"""Credentials: tenant keys, of which only a keyed hash is kept, and session tokens, signed and short-lived.

A tenant key is `sk_<key id>_<secret>`, its secret 256 random bits in 43 URL-safe characters. A session token is `st_` and a JWT
(HS256, the algorithm pinned, the signing key named by `kid` so that keys can be rotated). Whatever is wrong with one, the answer
is one of our own sentences.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import jwt

from memory.errors import ConfigError, InvalidInput, Unauthenticated
from memory.ids import SessionId, TenantId, UserId, checked_id

_KEY = re.compile(r"sk_([A-Za-z0-9_-]{1,64})_([A-Za-z0-9_-]{43})", re.ASCII)
_KEY_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_TOKEN = re.compile(r"st_[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", re.ASCII)
_MAX_TOKEN = 4096
_MIN_SECRET_BYTES = 32

ALGORITHM = "HS256"
ISSUER = "strata"
AUDIENCE = "strata:session"
LEEWAY = timedelta(seconds=5)
"""How far the clocks of two replicas may be apart."""

BAD_KEY = "The tenant key is malformed, unknown, revoked or expired."
BAD_TOKEN = "The session token is malformed or was not signed here; open a session to get one."  # noqa: S105 - a sentence
EXPIRED_TOKEN = "The session token has expired; open the session again to get a new one."  # noqa: S105 - a sentence


@dataclass(frozen=True, slots=True)
class Pepper:
    """Keys the hash of every tenant key; kept apart from the database. At least 32 bytes."""

    value: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.value) < _MIN_SECRET_BYTES:
            raise ConfigError("secrets.pepper", f"must have at least {_MIN_SECRET_BYTES} bytes")


def new_key(key_id: str | None = None) -> str:
    """A fresh tenant key. Shown once; only `key_digest` of its secret is ever stored."""
    return f"sk_{key_id or secrets.token_hex(6)}_{secrets.token_urlsafe(32)}"


def split_key(key: str) -> tuple[str, str]:
    """(key id, secret) of a tenant key; Unauthenticated where it is none. Key ids may hold `_`: the secret's length is fixed."""
    match = _KEY.fullmatch(key)
    if match is None:
        raise Unauthenticated(BAD_KEY)
    return match[1], match[2]


def key_digest(secret: str, pepper: Pepper) -> bytes:
    """HMAC-SHA256 of the secret under the pepper: 32 bytes, all that is kept of a key. The secret has 256 random bits, so that
    a slow hash would add nothing."""
    return hmac.new(pepper.value, secret.encode(), hashlib.sha256).digest()


def key_matches(secret: str, digest: bytes, pepper: Pepper) -> bool:
    """In constant time."""
    return hmac.compare_digest(key_digest(secret, pepper), digest)


@dataclass(frozen=True, slots=True)
class TokenKeys:
    """Signing keys by id. `signing` signs, all verify: add a key, let it sign, drop the old one when its tokens have expired."""

    keys: Mapping[str, str] = field(repr=False)
    signing: str

    def __post_init__(self) -> None:
        if self.signing not in self.keys:
            raise ConfigError("secrets.token_key_id", f"`{self.signing}` is not one of secrets.token_keys")
        for kid, secret in self.keys.items():
            if not _KEY_ID.fullmatch(kid):
                raise ConfigError("secrets.token_keys", "key ids are 1 to 64 of the characters A-Z a-z 0-9 _ and -")
            if len(secret.encode()) < _MIN_SECRET_BYTES:
                raise ConfigError(f"secrets.token_keys.{kid}", f"must have at least {_MIN_SECRET_BYTES} bytes")


@dataclass(frozen=True, slots=True)
class SessionClaims:
    """What a session token says. `time_zone` is the user's, for showing times."""

    tenant_id: TenantId
    user_id: UserId
    session_id: SessionId
    expires_at: datetime
    time_zone: str | None = None


def sign_token(claims: SessionClaims, keys: TokenKeys, now: datetime) -> str:
    payload: dict[str, Any] = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "iat": int(now.timestamp()),
        "exp": int(claims.expires_at.timestamp()),
        "tenant": claims.tenant_id,
        "user": claims.user_id,
        "session": claims.session_id,
    }
    if claims.time_zone is not None:
        payload["zone"] = claims.time_zone
    return "st_" + jwt.encode(payload, keys.keys[keys.signing], ALGORITHM, headers={"kid": keys.signing})


def verify_token(token: str, keys: TokenKeys, now: datetime) -> SessionClaims:
    """The claims of a token that was signed here and has not expired; else Unauthenticated."""
    if len(token) > _MAX_TOKEN or not _TOKEN.fullmatch(token):
        raise Unauthenticated(BAD_TOKEN)
    compact = token.removeprefix("st_")
    try:
        kid = jwt.get_unverified_header(compact).get("kid")
        secret = keys.keys.get(kid) if isinstance(kid, str) else None
        if secret is None:
            raise Unauthenticated(BAD_TOKEN)
        payload = jwt.decode(
            compact,
            secret,
            algorithms=[ALGORITHM],
            audience=AUDIENCE,
            issuer=ISSUER,
            # Times are checked below, against the clock that we were given.
            options={
                "require": ["iss", "aud", "iat", "exp", "tenant", "user", "session"],
                "verify_exp": False,
                "verify_iat": False,
                "verify_nbf": False,
            },
        )
        claims = SessionClaims(
            tenant_id=TenantId(checked_id(_text(payload["tenant"]), "tenant")),
            user_id=UserId(checked_id(_text(payload["user"]), "user")),
            session_id=SessionId(checked_id(_text(payload["session"]), "session")),
            expires_at=datetime.fromtimestamp(_seconds(payload["exp"]), now.tzinfo),
            time_zone=None if payload.get("zone") is None else _text(payload["zone"]),
        )
        issued_at = datetime.fromtimestamp(_seconds(payload["iat"]), now.tzinfo)
    except (jwt.PyJWTError, InvalidInput, KeyError, TypeError, ValueError, OverflowError, OSError):
        raise Unauthenticated(BAD_TOKEN) from None
    if now >= claims.expires_at + LEEWAY:
        raise Unauthenticated(EXPIRED_TOKEN)
    if issued_at > now + LEEWAY:
        raise Unauthenticated(BAD_TOKEN)
    return claims


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _seconds(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    return value
