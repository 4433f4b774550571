"""Wrapped keys: bound to tenant and user, opened by the master key alone, rotated without touching what they sealed."""

import base64
import secrets

import pytest

from memory.errors import ConfigError
from memory.ids import TenantId, UserRef, checked_id
from storage.keys import MasterKey, make_user_key

ACME = TenantId("acme")
OLD, NEW = MasterKey(bytes(range(32))), MasterKey(bytes(range(1, 33)))


def test_a_made_key_opens_and_its_reference_says_nothing():
    made = [make_user_key(OLD, ACME) for _ in range(50)]
    keys = {OLD.unwrap(user.wrapped, ACME, user.ref) for user in made}
    assert len(keys) == len({user.ref for user in made}) == len({user.wrapped for user in made}) == 50
    assert all(len(key) == 32 for key in keys)
    assert all(checked_id(user.ref, "ref") for user in made)
    assert not any(key in user.wrapped for key in keys for user in made)


@pytest.mark.parametrize(("tenant", "ref"), [("acme", "u_2"), ("ACME", "u_1"), ("acme2", "u_1"), ("acme", "u_11")])
def test_a_key_moved_to_another_row_does_not_open(tenant, ref):
    wrapped = OLD.wrap(secrets.token_bytes(32), ACME, UserRef("u_1"))
    with pytest.raises(ConfigError, match="does not open"):
        OLD.unwrap(wrapped, TenantId(tenant), UserRef(ref))


@pytest.mark.parametrize("position", [0, 1, 5, 17, 40, 64])
def test_a_damaged_key_does_not_open(position):
    wrapped = bytearray(OLD.wrap(bytes(32), ACME, UserRef("u_1")))
    wrapped[position] ^= 1
    with pytest.raises(ConfigError):
        OLD.unwrap(bytes(wrapped), ACME, UserRef("u_1"))
    with pytest.raises(ConfigError):
        OLD.unwrap(bytes(wrapped[:-1]), ACME, UserRef("u_1"))


def test_the_master_key_is_rotated_without_changing_a_users_key():
    user = make_user_key(OLD, ACME)
    key = OLD.unwrap(user.wrapped, ACME, user.ref)
    both = MasterKey(NEW.current, (OLD.current,))
    assert both.unwrap(user.wrapped, ACME, user.ref) == key
    again = both.rewrapped(user.wrapped, ACME, user.ref)
    assert NEW.unwrap(again, ACME, user.ref) == key
    assert both.rewrapped(again, ACME, user.ref) is None
    with pytest.raises(ConfigError, match="add the former one after the new one"):
        NEW.unwrap(user.wrapped, ACME, user.ref)


def test_from_base64():
    old, new = (base64.b64encode(key.current).decode() for key in (OLD, NEW))
    assert MasterKey.from_base64(f" {old}\n") == OLD
    assert (
        MasterKey.from_base64(f"{new},{old}")
        == MasterKey.from_base64(f"{new}\n{old}")
        == MasterKey(NEW.current, (OLD.current,))
    )


@pytest.mark.parametrize("text", ["", "short", "not base64 at all!", base64.b64encode(bytes(31)).decode(), "ü" * 44])
def test_a_master_key_of_another_shape_stops_the_start_and_is_not_shown(text):
    with pytest.raises(ConfigError, match="openssl rand -base64 32") as refused:
        MasterKey.from_base64(text)
    assert not text or text not in str(refused.value)


def test_keys_do_not_show_in_a_repr():
    assert OLD.current.hex() not in repr(OLD) and repr(OLD.current) not in repr(OLD)
