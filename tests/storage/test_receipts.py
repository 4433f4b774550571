"""Signed receipts (I3): whoever holds the public key can check one, and no change passes."""

import base64

import jwt
import pytest

from memory.errors import ConfigError
from storage.receipts import ALGORITHM, ReceiptSigner, canonical

KEY = base64.b64encode(bytes(range(32))).decode()
OTHER = base64.b64encode(bytes(32)).decode()
RECEIPT = {
    "id": "rcp_1",
    "count": 2,
    "stores": {"records": {"before": 2, "after": 0, "method": "删除"}},
    "signature": None,
}


def checked(signature: str, signer: ReceiptSigner) -> bytes:
    """As an outsider would: with the published JWK alone."""
    payload: bytes = jwt.PyJWS().decode(signature, jwt.PyJWK(signer.public_jwk).key, [ALGORITHM])
    return payload


def test_i3_a_receipt_is_checked_with_the_public_key_alone():
    signer = ReceiptSigner.from_base64(KEY)
    signature = signer.sign(RECEIPT)
    assert checked(signature, signer) == canonical(RECEIPT)
    assert jwt.get_unverified_header(signature)["kid"] == signer.public_jwk["kid"]
    assert "d" not in signer.public_jwk
    assert KEY not in repr(signer)


def test_canonical_json_is_one_form():
    assert canonical({"b": 1, "a": "ü"}) == canonical({"a": "ü", "b": 1}) == '{"a":"ü","b":1}'.encode()
    assert canonical({**RECEIPT, "signature": "x"}) == canonical(RECEIPT)
    signer = ReceiptSigner.from_base64(KEY)
    assert signer.sign(RECEIPT) == signer.sign(dict(reversed(RECEIPT.items())))


def test_i3_a_changed_receipt_or_another_key_does_not_pass():
    signer = ReceiptSigner.from_base64(KEY)
    header, _, proof = signer.sign(RECEIPT).split(".")
    changed = base64.urlsafe_b64encode(canonical({**RECEIPT, "count": 3})).rstrip(b"=").decode()
    with pytest.raises(jwt.InvalidSignatureError):
        checked(f"{header}.{changed}.{proof}", signer)
    with pytest.raises(jwt.InvalidSignatureError):
        checked(signer.sign(RECEIPT), ReceiptSigner.from_base64(OTHER))


@pytest.mark.parametrize(
    "text", ["", "x", "AAAA", base64.b64encode(bytes(31)).decode(), base64.b64encode(bytes(33)).decode()]
)
def test_a_key_that_is_none_stops_the_start(text):
    with pytest.raises(ConfigError, match=r"secrets\.receipt_key"):
        ReceiptSigner.from_base64(text)
