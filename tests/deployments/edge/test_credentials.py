"""Tenant keys and session tokens: what is signed here is accepted until it expires, and nothing else is."""

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import jwt
import pytest

from deployments.edge.credentials import (
    BAD_KEY,
    BAD_TOKEN,
    EXPIRED_TOKEN,
    LEEWAY,
    Pepper,
    SessionClaims,
    TokenKeys,
    key_digest,
    key_matches,
    new_key,
    sign_token,
    split_key,
    verify_token,
)
from memory.errors import ConfigError, Unauthenticated
from memory.ids import SessionId, TenantId, UserId

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
KEYS = TokenKeys({"k1": "a" * 64, "k2": "b" * 32}, "k1")
CLAIMS = SessionClaims(
    TenantId("shop"), UserId("alice"), SessionId("s1"), NOW + timedelta(hours=1), time_zone="Asia/Shanghai"
)
PEPPER = Pepper(b"p" * 32)


def test_a_key_is_its_id_and_256_random_bits():
    key_id, secret = split_key(new_key("shop_main"))  # an underscore in the id leaves no doubt where the secret begins
    assert key_id == "shop_main"
    assert len(base64.urlsafe_b64decode(secret + "=")) == 32
    assert split_key(new_key())[1] != secret


def test_only_a_keyed_hash_of_the_secret_is_kept():
    _, secret = split_key(new_key())
    digest = key_digest(secret, PEPPER)
    assert len(digest) == 32
    assert secret.encode() not in digest
    assert key_matches(secret, digest, PEPPER)
    assert not key_matches(secret[:-1] + ("A" if secret[-1] != "A" else "B"), digest, PEPPER)
    assert not key_matches(secret, digest, Pepper(b"q" * 32))


@pytest.mark.parametrize(
    "key",
    [
        "",
        "sk_",
        "sk_a_b",
        "sk__" + "a" * 43,
        "sk_a b_" + "a" * 43,
        "sk_a_" + "a" * 43 + "\n",
        "pk_a_" + "a" * 43,
        "sk_ä_" + "a" * 43,
    ],
)
def test_malformed_keys(key):
    with pytest.raises(Unauthenticated) as refused:
        split_key(key)
    assert refused.value.detail == BAD_KEY


def test_a_signed_token_says_what_was_signed():
    assert verify_token(sign_token(CLAIMS, KEYS, NOW), KEYS, NOW) == CLAIMS
    assert verify_token(sign_token(replace(CLAIMS, time_zone=None), KEYS, NOW), KEYS, NOW).time_zone is None


def test_rotation_an_old_key_verifies_until_it_is_dropped():
    old = sign_token(CLAIMS, KEYS, NOW)
    assert verify_token(old, TokenKeys(KEYS.keys, "k2"), NOW) == CLAIMS
    with pytest.raises(Unauthenticated):
        verify_token(old, TokenKeys({"k2": "b" * 32}, "k2"), NOW)


def test_expiry():
    token = sign_token(CLAIMS, KEYS, NOW)
    assert verify_token(token, KEYS, CLAIMS.expires_at + LEEWAY - timedelta(seconds=1)) == CLAIMS
    with pytest.raises(Unauthenticated) as refused:
        verify_token(token, KEYS, CLAIMS.expires_at + LEEWAY)
    assert refused.value.detail == EXPIRED_TOKEN


def made(payload=None, *, headers=None, key="a" * 64, algorithm="HS256", drop=()):
    full = {
        "iss": "strata",
        "aud": "strata:session",
        "iat": int(NOW.timestamp()),
        "exp": int(NOW.timestamp()) + 3600,
        "tenant": "shop",
        "user": "alice",
        "session": "s1",
        **(payload or {}),
    }
    for name in drop:
        del full[name]
    return "st_" + jwt.encode(full, key, algorithm, headers={"kid": "k1"} if headers is None else headers)


def unsigned():
    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    claims = jwt.decode(made()[3:], options={"verify_signature": False})
    return f"st_{part({'alg': 'none', 'typ': 'JWT', 'kid': 'k1'})}.{part(claims)}.AA"


def test_the_handmade_token_of_the_table_below_is_otherwise_good():
    assert verify_token(made(), KEYS, NOW).user_id == "alice"


@pytest.mark.parametrize(
    "token",
    [
        "st_",
        "st_a.b.c",
        "st_a.b",
        made() + "\n",
        made()[3:],  # without its prefix
        "st_" + "a" * 5000 + ".b.c",
        made(key="z" * 32),  # signed by somebody else
        made(algorithm="HS512"),  # the right key, another algorithm
        unsigned(),
        made(headers={}),
        made(headers={"kid": "k9"}),
        made({"aud": "somebody-else"}),
        made({"iss": "somebody-else"}),
        made({"user": "alice "}),  # ids are checked again: no token may carry what no call may say
        made({"tenant": ["shop"]}),
        made({"exp": "tomorrow"}),
        made({"exp": 10**20}),
        made({"iat": int(NOW.timestamp()) + 3600}),  # from the future
        *(made(drop=(name,)) for name in ("iss", "aud", "iat", "exp", "tenant", "user", "session")),
    ],
)
def test_malformed_and_foreign_tokens(token):
    with pytest.raises(Unauthenticated) as refused:
        verify_token(token, KEYS, NOW)
    assert refused.value.detail == BAD_TOKEN


def test_a_changed_claim_breaks_the_signature():
    head, payload, signature = sign_token(CLAIMS, KEYS, NOW)[3:].split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    claims["user"] = "bob"
    forged = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    with pytest.raises(Unauthenticated):
        verify_token(f"st_{head}.{forged}.{signature}", KEYS, NOW)


def test_weak_or_missing_secrets_stop_the_start():
    with pytest.raises(ConfigError, match="at least 32 bytes"):
        Pepper(b"short")
    with pytest.raises(ConfigError, match="at least 32 bytes"):
        TokenKeys({"k1": "short"}, "k1")
    with pytest.raises(ConfigError, match="not one of"):
        TokenKeys({"k1": "a" * 32}, "k2")


def test_secrets_are_in_no_repr():
    assert "pppp" not in repr(PEPPER)
    assert "aaaa" not in repr(KEYS)
