"""The contract of TenantStore."""

import asyncio
from dataclasses import replace

import pytest

from memory.errors import Conflict, Forbidden, NotFound
from memory.ids import TenantId
from memory.scope import Grant, Scope, system_scope
from storage.protocols import KeyRecord, TenantRecord
from storage.records import SqlTenants
from tests.contract.record_cases import NOON

SYSTEM = system_scope()


@pytest.fixture
def shop(alice: Scope) -> TenantRecord:
    return TenantRecord(alice.tenant_id, "商店 & Co.", {"recall": {"limit": 3}, "languages": ["zh"]}, version=99)


def key(tenant: TenantRecord, name: str, digest: bytes = b"\x00\xff" * 16) -> KeyRecord:
    return KeyRecord(f"{tenant.id[:30]}_{name}", tenant.id, name, digest, frozenset({Grant.MEMORY, Grant.POOL}), NOON)


async def test_only_the_system_may(tenants: SqlTenants, shop: TenantRecord, alice: Scope) -> None:
    admin = replace(alice, grants=frozenset({Grant.ADMIN}))
    for call in (
        tenants.tenant(admin, shop.id),
        tenants.tenants(admin),
        tenants.versions(admin),
        tenants.apply(admin, shop, []),
        tenants.key(admin, "k"),
    ):
        with pytest.raises(Forbidden):
            await call


async def test_a_tenant_comes_back_and_its_version_counts_changes(tenants: SqlTenants, shop: TenantRecord) -> None:
    one = key(shop, "one")
    assert await tenants.apply(SYSTEM, shop, [one])
    assert await tenants.tenant(SYSTEM, shop.id) == replace(shop, version=1)
    assert await tenants.key(SYSTEM, one.id) == one
    assert not await tenants.apply(SYSTEM, shop, [one])  # the same again: nothing changed
    assert (await tenants.versions(SYSTEM))[shop.id] == 1
    for number, (tenant, keys) in enumerate(
        [
            (replace(shop, suspended=True), [one]),
            (replace(shop, suspended=True, policy={}), [one]),
            (replace(shop, suspended=True, policy={}), [one, key(shop, "two")]),
            (replace(shop, suspended=True, policy={}), [replace(one, expires_at=None), key(shop, "two")]),
            (replace(shop, suspended=True, policy={}), []),
        ],
        start=2,
    ):
        assert await tenants.apply(SYSTEM, tenant, keys)
        assert await tenants.tenant(SYSTEM, shop.id) == replace(tenant, version=number)
    assert shop.id in {t.id for t in await tenants.tenants(SYSTEM)}


async def test_exactly_these_keys(tenants: SqlTenants, shop: TenantRecord) -> None:
    await tenants.apply(SYSTEM, shop, [key(shop, "one"), key(shop, "two")])
    rotated = key(shop, "two", b"new")
    await tenants.apply(SYSTEM, shop, [rotated])
    assert await tenants.key(SYSTEM, rotated.id) == rotated
    with pytest.raises(NotFound):
        await tenants.key(SYSTEM, key(shop, "one").id)


async def test_another_tenants_key_cannot_be_taken(tenants: SqlTenants, shop: TenantRecord) -> None:
    other = replace(shop, id=TenantId(shop.id + "x"))
    await tenants.apply(SYSTEM, shop, [key(shop, "one")])
    with pytest.raises(Conflict):
        await tenants.apply(SYSTEM, other, [replace(key(shop, "one"), tenant_id=other.id)])
    with pytest.raises(NotFound):
        await tenants.apply(SYSTEM, other, [key(shop, "one")])
    with pytest.raises(NotFound):  # nothing half-written
        await tenants.tenant(SYSTEM, other.id)
    assert (await tenants.key(SYSTEM, key(shop, "one").id)).tenant_id == shop.id


@pytest.mark.parametrize("lookalike", [str.upper, lambda i: i + " ", lambda i: i[:-1], lambda i: "%"])
async def test_p24_lookalike_ids_are_nobodys(tenants: SqlTenants, shop: TenantRecord, lookalike) -> None:  # type: ignore[no-untyped-def]
    await tenants.apply(SYSTEM, shop, [key(shop, "one")])
    with pytest.raises(NotFound):
        await tenants.tenant(SYSTEM, lookalike(shop.id))
    with pytest.raises(NotFound):
        await tenants.key(SYSTEM, lookalike(key(shop, "one").id))


async def test_two_replicas_declaring_a_tenant_at_once(tenants: SqlTenants, shop: TenantRecord) -> None:
    keys = [key(shop, "one"), key(shop, "two")]
    assert sum(await asyncio.gather(*(tenants.apply(SYSTEM, shop, keys) for _ in range(6)))) == 1
    assert (await tenants.versions(SYSTEM))[shop.id] == 1
