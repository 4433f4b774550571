"""The master key is changed without touching the index; a user's key is replaced and everything of his sealed anew."""

import asyncio
import base64
import os

import numpy as np
import pytest

from deployments.rotation import Stalled, rewrap, rotate
from memory.errors import ConfigError, NotFound
from memory.ids import TenantId, UserId
from memory.scope import Scope, system_scope
from storage.index.blind import KeyRing
from storage.keys import MasterKey
from storage.protocols import UserKey
from tests.end_to_end.harness import Strata, Tenant
from tests.faults.audit import audit
from tests.operations.conftest import BOTH

pytestmark = pytest.mark.model

SHOP = TenantId("shop")
WEI, LIN = Scope(SHOP, UserId("wei")), Scope(SHOP, UserId("lin"))
FACTS = ("我对花生过敏。", "I live in Berlin.", "My favourite colour is green.")


def unwatched(stage: str, done: int, total: int) -> None: ...


def never() -> UserKey:
    raise AssertionError("the user has a key")


async def known(shop: Tenant) -> None:
    for user in ("wei", "lin"):
        talk = await shop.open(user)
        for fact in FACTS:
            await talk.say(fact)
    await shop.strata.settle()


def master(strata: Strata) -> MasterKey:
    return strata.services.index._keys._master


async def test_a_new_master_key_wraps_every_users_key_and_leaves_the_index_alone(strata: Strata, shop: Tenant):
    await known(shop)
    records, old = strata.services.records, master(strata)
    before = {scope.user: await records.user_key(scope, never) for scope in (WEI, LIN)}
    new = MasterKey(os.urandom(32), (old.current,))
    told: list[int] = []
    assert await rewrap(records, new, lambda stage, done, total: told.append(done)) == 2
    assert told[-1] == 2
    for scope in (WEI, LIN):
        after = await records.user_key(scope, never)
        assert after.ref == before[scope.user].ref
        assert after.wrapped != before[scope.user].wrapped
        opened = MasterKey(new.current).unwrap(after.wrapped, SHOP, after.ref)  # without the old one
        assert opened == old.unwrap(before[scope.user].wrapped, SHOP, after.ref)
    assert await rewrap(records, new, unwatched) == 0
    assert not (await audit(strata, "shop")).faults
    with pytest.raises(ConfigError, match="another master key"):
        await rewrap(records, MasterKey(os.urandom(32)), unwatched)


@BOTH
async def test_a_rotated_user_is_sealed_anew_and_nothing_is_left_under_his_old_name(strata: Strata, shop: Tenant):
    await known(shop)
    services = strata.services
    records, index = services.records, services.index
    old, lins = await records.user_key(WEI, never), await records.user_key(LIN, never)
    vector = np.eye(1, 384, dtype=np.float32)[0]
    found = {hit.id for hit in await index.search(WEI, vector, ["berlin"], 0, 10)}
    assert found

    curating = asyncio.create_task(work(strata))
    told: list[tuple[str, int, int]] = []
    system = system_scope(SHOP, WEI.user)
    try:
        count = await rotate(records, [index], master(strata), system, 0.2, lambda *step: told.append(step), 60)
    finally:
        curating.cancel()
    assert count == len(FACTS)
    assert ("sealing anew", len(FACTS), len(FACTS)) in told
    await strata.settle()
    new = await records.user_key(WEI, never)
    assert new.ref != old.ref
    assert await index.count(system, old.ref) == 0
    assert await index.count(system, new.ref) == len(FACTS)
    assert await index.count(system, lins.ref) == len(FACTS)
    fresh = type(index)(index._backend, KeyRing(records, master(strata)))  # a replica without the old key in its cache
    assert {hit.id for hit in await fresh.search(WEI, vector, ["berlin"], 0, 10)} == found
    assert not (await audit(strata, "shop")).faults


async def work(strata: Strata) -> None:
    while True:
        await strata.curator.step()
        await asyncio.sleep(0.05)


async def test_a_rotation_that_nobody_works_at_says_so_and_can_be_done_again(strata: Strata, shop: Tenant):
    await known(shop)
    records, index, system = strata.services.records, strata.services.index, system_scope(SHOP, WEI.user)
    with pytest.raises(Stalled):
        await rotate(records, [index], master(strata), system, 0, unwatched, stall_s=0.5)
    await strata.settle()
    assert not (await audit(strata, "shop")).faults  # the new key is in force all the same
    with pytest.raises(NotFound, match="user"):
        await rotate(records, [index], master(strata), system_scope(SHOP, UserId("nobody")), 0, unwatched)


def test_a_master_key_is_32_bytes_and_several_are_given_newest_first():
    one, two = (base64.b64encode(os.urandom(32)).decode() for _ in range(2))
    both = MasterKey.from_base64(f"{one}, {two}")
    assert base64.b64encode(both.current).decode() == one
    assert [base64.b64encode(key).decode() for key in both.older] == [two]
