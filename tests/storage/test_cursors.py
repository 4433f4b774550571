"""Cursors: opaque, valid for their caller alone."""

import pytest

from memory.errors import InvalidInput
from memory.ids import SessionId, TenantId, UserId
from memory.scope import Scope
from storage.cursors import decode_cursor, encode_cursor, position_after


def scope(tenant: str, user: str | None = None, session: str | None = None) -> Scope:
    return Scope(TenantId(tenant), user and UserId(user), session and SessionId(session))


MINE = scope("acme", "alice", "s1")


@pytest.mark.parametrize("position", ["turns:12", "", "sessions:1790000000000000:s_1", "x" * 300])
def test_a_cursor_comes_back_as_it_went(position):
    cursor = encode_cursor(MINE, position)
    assert decode_cursor(MINE, cursor) == position
    assert cursor.replace("-", "").replace("_", "").isalnum()  # safe in a URL as it is


@pytest.mark.parametrize(
    "other",
    [
        scope("acme", "Alice", "s1"),  # P24: look-alike ids
        scope("acme", "alice_", "s1"),
        scope("Acme", "alice", "s1"),
        scope("acme", "alice", "s2"),
        scope("acme", "alice"),
        scope("acme"),
        scope("acme", "s1", "alice"),
    ],
)
def test_p24_a_cursor_of_another_scope_is_refused(other):
    with pytest.raises(InvalidInput) as error:
        decode_cursor(other, encode_cursor(MINE, "turns:12"))
    assert error.value.field == "cursor"
    assert "next_cursor" in error.value.fix


@pytest.mark.parametrize("cursor", ["", "a", "abc", "!!!!", "游标", "A" * 600, "AAAA=AAA", "a b c d", "\x00" * 8])
def test_a_garbled_cursor_is_refused(cursor):
    with pytest.raises(InvalidInput, match="cursor"):
        decode_cursor(MINE, cursor)


def test_every_changed_character_is_refused_or_stays_in_scope():
    cursor = encode_cursor(MINE, "turns:12")
    for place in range(12):  # the digest's characters
        changed = cursor[:place] + ("A" if cursor[place] != "A" else "B") + cursor[place + 1 :]
        with pytest.raises(InvalidInput):
            decode_cursor(MINE, changed)


def test_a_cursor_of_another_listing_is_refused():
    cursor = encode_cursor(MINE, "turns:12")
    assert position_after("turns", MINE, cursor) == "12"
    with pytest.raises(InvalidInput):
        position_after("memories", MINE, cursor)
