"""Cursors of listings: opaque, valid for their caller alone.

A cursor carries a place in a listing and a digest of the scope it was given to. It is no secret and opens nothing: a listing
always runs under the caller's own scope. The digest makes a cursor that came from elsewhere an error, never another page.
"""

import base64
import hashlib

from memory.errors import InvalidInput
from memory.scope import Scope

_DIGEST = 9  # bytes: twelve characters of base64
_MAX_CHARS = 512
_FIX = "use the next_cursor of the page before, with the same credential and the same listing, or leave it out"


def _digest(scope: Scope) -> bytes:
    # Ids hold no "\x1f", and none is empty: None and every id stay apart.
    whose = "\x1f".join((scope.tenant_id, scope.user_id or "", scope.session_id or ""))
    return hashlib.blake2b(whose.encode(), digest_size=_DIGEST, person=b"strata-cursor").digest()


def encode_cursor(scope: Scope, position: str) -> str:
    """A URL-safe cursor for `position`, which should begin with the listing's name ("turns:12")."""
    return base64.urlsafe_b64encode(_digest(scope) + position.encode()).rstrip(b"=").decode()


def decode_cursor(scope: Scope, cursor: str) -> str:
    """The position in `cursor`; InvalidInput("cursor") where it is garbled or was given to another scope.

    The position itself is the caller's word: a listing parses it strictly.
    """
    if not cursor.isascii() or len(cursor) > _MAX_CHARS:
        raise InvalidInput("cursor", _FIX)
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        position = raw[_DIGEST:].decode()
    except ValueError:
        raise InvalidInput("cursor", _FIX) from None
    if raw[:_DIGEST] != _digest(scope):
        raise InvalidInput("cursor", _FIX)
    return position


def position_after(listing: str, scope: Scope, cursor: str) -> str:
    """What follows `listing:` in the cursor's position; InvalidInput("cursor") for a cursor of another listing."""
    name, colon, place = decode_cursor(scope, cursor).partition(":")
    if name != listing or not colon:
        raise InvalidInput("cursor", _FIX)
    return place


def bad_cursor() -> InvalidInput:
    """For a listing whose own parse of the place fails."""
    return InvalidInput("cursor", _FIX)
