"""The contract of VersionStore and PlacementStore."""

import asyncio
import uuid
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import func, select

from memory.errors import Conflict, Forbidden, NotFound
from memory.ids import MemoryId, TenantId
from memory.scope import Grant, Scope, system_scope
from storage.protocols import IndexVersion, Placement, VersionState
from storage.records import Database, SqlRecords, SqlVersions
from storage.records.schema import memory_tokens
from tests.contract.record_cases import DAY, NOON, entry, packed, store

SYSTEM = system_scope()


@pytest.fixture
def name() -> str:
    """A model that no other test knows: the versions of a database are of all its tenants."""
    return f"m{uuid.uuid4().hex}"


def version(key: str, state: VersionState = VersionState.BUILDING, **fields: object) -> IndexVersion:
    details = {"name": "模型", "prefix": "query: ", "digest": "ab"}
    return IndexVersion(key, 384, state, details, created_at=NOON, **fields)  # type: ignore[arg-type]


async def mine(versions: SqlVersions, name: str) -> list[IndexVersion]:
    return [found for found in await versions.versions(SYSTEM) if found.model_key.startswith(name)]


async def test_only_the_system_may(versions: SqlVersions, name: str, alice: Scope) -> None:
    admin = replace(alice, grants=frozenset({Grant.ADMIN}))
    for call in (
        versions.versions(admin),
        versions.put(admin, version(name)),
        versions.activate(admin, name, NOON),
        versions.drop(admin, name),
        versions.placements(admin, name),
        versions.place(admin, name, Placement("shard")),
    ):
        with pytest.raises(Forbidden):
            await call


async def test_p18_a_version_comes_back_as_it_was_put(versions: SqlVersions, name: str) -> None:
    first = version(f"{name}-a", at=(TenantId("t"), MemoryId("m7")))
    second = replace(version(f"{name}-b"), created_at=NOON - DAY, details={}, at=None)
    await versions.put(SYSTEM, first)
    await versions.put(SYSTEM, second)
    assert await mine(versions, name) == [second, first]  # oldest first
    further = replace(first, state=VersionState.READY, at=(TenantId("u"), MemoryId("m1")), details={"name": "x"})
    await versions.put(SYSTEM, further)
    assert await mine(versions, name) == [second, further]
    await versions.put(SYSTEM, replace(further, created_at=None, at=None))
    assert await mine(versions, name) == [second, replace(further, at=None)]
    await versions.put(SYSTEM, replace(version(f"{name}-c"), created_at=None))
    assert (await mine(versions, name))[-1].created_at is not None


async def test_p18_one_version_is_active(versions: SqlVersions, name: str) -> None:
    for letter in "abc":
        await versions.put(SYSTEM, version(f"{name}-{letter}"))
    await versions.activate(SYSTEM, f"{name}-a", NOON)
    await versions.activate(SYSTEM, f"{name}-b", NOON + DAY)
    await versions.activate(SYSTEM, f"{name}-b", NOON + 2 * DAY)  # by the next replica: it is already
    states = {v.model_key[-1]: (v.state, v.activated_at) for v in await mine(versions, name)}
    assert states == {
        "a": (VersionState.RETIRED, NOON),
        "b": (VersionState.ACTIVE, NOON + DAY),
        "c": (VersionState.BUILDING, None),
    }
    with pytest.raises(NotFound):
        await versions.activate(SYSTEM, f"{name}-none", NOON)
    assert {v.model_key[-1]: v.state for v in await mine(versions, name)}["b"] is VersionState.ACTIVE


async def test_p18_replicas_that_activate_at_once_leave_one_active(versions: SqlVersions, name: str) -> None:
    keys = [f"{name}-{i}" for i in range(6)]
    for key in keys:
        await versions.put(SYSTEM, version(key))
    at = [NOON + timedelta(seconds=i) for i in range(6)]
    await asyncio.gather(*(versions.activate(SYSTEM, key, when) for key, when in zip(keys, at, strict=True)))
    states = [v.state for v in await versions.versions(SYSTEM)]
    assert states.count(VersionState.ACTIVE) == 1
    assert [v.state for v in await mine(versions, name)].count(VersionState.ACTIVE) == 1


async def test_replicas_that_put_one_version_at_once_agree(versions: SqlVersions, name: str) -> None:
    await asyncio.gather(*(versions.put(SYSTEM, version(name)) for _ in range(6)))
    assert await mine(versions, name) == [version(name)]


async def test_dropping_a_version_takes_its_token_vectors_and_no_others(
    versions: SqlVersions, records: SqlRecords, database: Database, name: str, alice: Scope
) -> None:
    other = replace(alice, tenant_id=TenantId(alice.tenant_id + "x"))
    for scope in (alice, other):
        await store(records, scope, *(entry(scope, f"m{i}", f"fact {i}") for i in range(4)))
        system = system_scope(scope.tenant_id, scope.user)
        for i in range(4):
            for key in (f"{name}-a", f"{name}-b"):
                assert await records.store_tokens(system, MemoryId(f"m{i}"), key, 1, packed())
    await versions.put(SYSTEM, version(f"{name}-a"))
    await versions.put(SYSTEM, version(f"{name}-b"))
    await versions.activate(SYSTEM, f"{name}-a", NOON)
    with pytest.raises(Conflict):
        await versions.drop(SYSTEM, f"{name}-a")
    await versions.activate(SYSTEM, f"{name}-b", NOON)
    assert await versions.drop(SYSTEM, f"{name}-a") == 8
    assert [v.model_key for v in await mine(versions, name)] == [f"{name}-b"]
    t = memory_tokens.c
    for key, left in ((f"{name}-a", 0), (f"{name}-b", 8)):
        many = select(func.count()).select_from(memory_tokens).where(t.model_key == key)
        assert await database.read(lambda c, many=many: c.scalar(many)) == left
    assert await versions.drop(SYSTEM, f"{name}-a") == 0  # again


async def test_p24_a_models_lookalike_is_another(versions: SqlVersions, name: str) -> None:
    await versions.put(SYSTEM, version(f"{name}-a"))
    await versions.put(SYSTEM, version(f"{name}-A", VersionState.READY))
    assert {v.model_key: v.state for v in await mine(versions, name)} == {
        f"{name}-a": VersionState.BUILDING,
        f"{name}-A": VersionState.READY,
    }


async def test_placements_of_a_model(versions: SqlVersions, name: str, alice: Scope) -> None:
    here, there = system_scope(alice.tenant_id), system_scope(TenantId(alice.tenant_id + "x"))
    assert await versions.placements(SYSTEM, name) == {}
    moving = Placement("shard", "collection", NOON)
    await versions.place(here, name, moving)
    await versions.place(there, name, Placement("collection"))
    await versions.place(here, name + "-b", Placement("collection", None, NOON))
    found = await versions.placements(SYSTEM, name)
    assert found[alice.tenant_id] == moving and set(found) == {here.tenant_id, there.tenant_id}
    assert (found[there.tenant_id].place, found[there.tenant_id].moving_to) == ("collection", None)
    assert found[there.tenant_id].since is not None
    await versions.place(here, name, Placement("collection", None, NOON + DAY))
    assert (await versions.placements(SYSTEM, name))[alice.tenant_id] == Placement("collection", None, NOON + DAY)
