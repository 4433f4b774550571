"""Users' keys at hand: one look-up, a bound, an age, and nothing after an erasure."""

import pytest

from memory.errors import ConfigError, Conflict, NotFound
from memory.seal import permutation, seal_vector
from storage.index.keyring import KeyRing
from storage.keys import MasterKey
from tests.contract.index_backends import MASTER, KeysOfATest, scope, unit

pytestmark = pytest.mark.asyncio


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


async def test_a_key_is_made_once_and_looked_up_once():
    records = KeysOfATest()
    ring = KeyRing(records, MASTER)
    first = await ring.open(scope("alice"))
    assert await ring.open(scope("alice")) is first
    assert records.calls == 1
    assert (await KeyRing(records, MASTER).open(scope("alice"))) == first  # another process: the same key
    bob, other = await ring.open(scope("bob")), await ring.open(scope("alice", "other"))
    assert len({first.key, bob.key, other.key}) == 3 and len({first.ref, bob.ref, other.ref}) == 3
    assert "alice" not in first.ref and first.key.hex() not in repr(first)


async def test_a_kept_key_grows_old_and_the_least_used_goes_first():
    records, clock = KeysOfATest(), Clock()
    ring = KeyRing(records, MASTER, limit=2, max_age_s=60, clock=clock)
    for user in ("alice", "bob", "alice", "carol", "alice"):
        await ring.open(scope(user))
    assert records.calls == 3
    await ring.open(scope("bob"))
    assert records.calls == 4
    clock.now = 61
    await ring.open(scope("bob"))
    assert records.calls == 5


async def test_after_an_erasure_the_key_has_left_the_process():
    records = KeysOfATest()
    ring = KeyRing(records, MASTER)
    key = (await ring.open(scope("alice"))).key
    await ring.open(scope("bob"))
    seal_vector(unit(1)[0], key)
    ring.forget(scope("alice"))
    assert permutation.cache_info().currsize == 0
    records.stored.clear()  # the row is gone as well: whoever comes back is somebody new
    assert (await ring.open(scope("alice"))).key != key
    calls = records.calls
    await ring.open(scope("bob"))
    assert records.calls == calls
    ring.forget(scope())
    await ring.open(scope("bob"))
    assert records.calls == calls + 1


async def test_a_writer_never_uses_a_key_that_was_replaced_or_destroyed():
    records = KeysOfATest()
    ring = KeyRing(records, MASTER)
    old = await ring.open(scope("alice"))
    seal_vector(unit(1)[0], old.key)
    records.stored.clear()  # in another process
    assert await ring.open(scope("alice")) is old  # who reads may not know yet
    new = await ring.open(scope("alice"), fresh=True)
    assert new != old and permutation.cache_info().currsize == 0
    assert await ring.open(scope("alice")) is new


@pytest.mark.parametrize("refusal", [Conflict("user is being erased"), NotFound("user")])
async def test_once_the_records_refuse_a_user_his_key_is_kept_no_longer(refusal):
    records = KeysOfATest()
    ring = KeyRing(records, MASTER)
    seal_vector(unit(1)[0], (await ring.open(scope("alice"))).key)

    async def refuse(scope, make):
        raise refusal

    records.user_key = refuse
    for fresh in (True, False):
        with pytest.raises(type(refusal)):
            await ring.open(scope("alice"), fresh=fresh)
    assert permutation.cache_info().currsize == 0


async def test_without_a_user_there_is_no_key():
    with pytest.raises(NotFound):
        await KeyRing(KeysOfATest(), MASTER).open(scope())


async def test_another_master_key_opens_nothing():
    records = KeysOfATest()
    await KeyRing(records, MASTER).open(scope("alice"))
    with pytest.raises(ConfigError, match="another master key"):
        await KeyRing(records, MasterKey(bytes(32))).open(scope("alice"))
