"""I2: reads are put on record after the answers: soon, also where the records were away meanwhile, and never without a bound."""

import asyncio
from typing import Any

import pytest

from deployments.background import Background
from deployments.reads import ReadLog
from deployments.services import utc_now
from memory.errors import Unavailable
from memory.ids import MemoryId, TenantId, UserId
from memory.scope import Scope
from storage.protocols import AuditEvent
from tests.deployments.edge.world import World


async def entry(world: World) -> tuple[Scope, MemoryId]:
    """One memory of one user, and who he is."""
    body = {"user_id": "alice", "memories": [{"content": "Remember that I live in Lisbon."}]}
    answer = await world.call("POST", "/v1/memories", json=body)
    assert answer.status_code == 200, answer.text
    return Scope(TenantId(world.tenant), UserId("alice")), MemoryId(answer.json()["items"][0]["id"])


def read(memory_id: MemoryId) -> AuditEvent:
    return AuditEvent("read", "key:k", (memory_id,), utc_now(), None, "context")


async def counted(world: World, scope: Scope, memory_id: MemoryId) -> int:
    return (await world.services.records.get(scope, memory_id)).access_count


async def test_a_read_is_on_record_soon_without_anybodys_doing(world: World) -> None:
    scope, memory_id = await entry(world)
    for _ in range(3):
        world.services.reads.note(scope, read(memory_id))
    for _ in range(600):
        if await counted(world, scope, memory_id) == 3:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("not on record after half a minute")


async def test_what_could_not_be_written_is_written_when_the_records_are_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope, memory_id = await entry(world)
    reads = world.services.reads

    async def away(*_: Any) -> None:
        raise Unavailable("records")

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(type(world.services.records), "note_reads", away)
        reads.note(scope, read(memory_id))
        with pytest.raises(Unavailable):
            await reads.write()
        reads.note(scope, read(memory_id))
    await reads.write()
    assert await counted(world, scope, memory_id) == 2
    await reads.write()
    assert await counted(world, scope, memory_id) == 2


async def test_over_the_bound_reads_are_dropped_and_the_rest_is_written_at_the_close(world: World) -> None:
    scope, memory_id = await entry(world)
    background = Background()
    reads = ReadLog(world.services.records, background, most=2)
    for _ in range(5):
        reads.note(scope, read(memory_id))
    await background.close(30)
    assert await counted(world, scope, memory_id) == 2
