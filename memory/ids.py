"""Ids: ASCII, `[A-Za-z0-9_-]{1,64}`, compared byte for byte.

Nothing else is let in, because stores disagree on everything else: collations equate case and trailing spaces, word
tokenizers match `test` in `test_domain`.
"""

import hashlib
import re
from datetime import datetime
from typing import NewType

from memory.errors import InvalidInput

TenantId = NewType("TenantId", str)
UserId = NewType("UserId", str)
SessionId = NewType("SessionId", str)
TurnId = NewType("TurnId", str)
MemoryId = NewType("MemoryId", str)
UserRef = NewType("UserRef", str)
"""The internal reference that stands for a user inside an index; made when the user is first seen, says nothing."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def checked_id(value: str, field: str) -> str:
    """`value`, or InvalidInput naming `field`. fullmatch: `$` would let a trailing newline through."""
    if not _ID.fullmatch(value):
        raise InvalidInput(
            field, "use 1 to 64 of the characters A-Z a-z 0-9 _ and -; map other ids (e-mails, names) to such an id"
        )
    return value


def _base32(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, 32)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))


def time_ordered_id(prefix: str, now: datetime, entropy: bytes) -> str:
    """`prefix_` + 9 characters of milliseconds + 16 of `entropy` (10 bytes): sorts by time, unguessable."""
    millis = int(now.timestamp() * 1000)
    return f"{prefix}_{_base32(millis, 9)}{_base32(int.from_bytes(entropy[:10], 'big'), 16)}"


def derived_id(prefix: str, *parts: str) -> str:
    """The same id for the same parts, so that a retried request makes nothing twice (P34)."""
    digest = hashlib.blake2b("\x1f".join(parts).encode(), digest_size=16).digest()
    return f"{prefix}_{_base32(int.from_bytes(digest, 'big'), 26)}"
