"""Entries to test with, and the shortest rules that decide about them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from memory.encoding import PackedTokens
from memory.entry import Kind, Memory, Source, Status
from memory.ids import MemoryId, TurnId
from memory.scope import Scope, system_scope
from memory.text import fingerprint
from storage.protocols import AuditEvent, DirtyItem, Insert, Lookup, Plan, Update
from storage.records import SqlRecords

DAY = timedelta(days=1)
NOON = datetime(2026, 3, 2, 12, 0, 0, 123456, tzinfo=UTC)
NOTHING = Lookup(unindexed=0)
MANY = 10_000
MODEL = "model_8_ab"


def event(action: str = "write", *ids: str) -> AuditEvent:
    return AuditEvent(action, "test", tuple(MemoryId(i) for i in ids), NOON)


def entry(scope: Scope, memory_id: str, content: str = "The user likes tea.", **fields: Any) -> Memory:
    turns = tuple(TurnId(turn) for turn in fields.pop("turns", ()))
    context = tuple(TurnId(turn) for turn in fields.pop("context", ()))
    at = fields.pop("at", NOON)
    common: dict[str, Any] = {
        "kind": Kind.FACT,
        "source": Source.USER,
        "status": Status.ACTIVE,
        "language": "en",
        "importance": 0.5,
        "confidence": 0.6,
        "version": 1,
        "created_at": at,
        "updated_at": at,
        "session_id": scope.session_id,
    }
    return Memory(
        id=MemoryId(memory_id),
        user_id=scope.user,
        content=content,
        turn_ids=turns,
        context_turn_ids=context,
        **(common | fields),
    )


async def store(records: SqlRecords, scope: Scope, *entries: Memory) -> None:
    """Written as they are."""
    plan = Plan(tuple(Insert(memory, fingerprint(memory.content)) for memory in entries))
    await records.write(scope, NOTHING, lambda _: plan, [], MANY)


async def change(records: SqlRecords, scope: Scope, memory_id: str, how: str = "corrected", **fields: Any) -> Memory:
    """One entry, read and changed in one transaction, with its version raised where its wording changes."""
    done: list[Memory] = []

    def decide(found: Sequence[Memory]) -> Plan:
        before = next(memory for memory in found if memory.id == memory_id)
        if "content" in fields:
            fields.setdefault("version", before.version + 1)
        after = replace(before, **fields)
        done[:] = [after]
        return Plan((Update(after, how, fingerprint(after.content)),))

    await records.write(scope, Lookup(near=(MemoryId(memory_id),), unindexed=0), decide, [], MANY)
    return done[0]


def say(scope: Scope, memory_id: str, content: str, **fields: Any) -> Callable[[Sequence[Memory]], Plan]:
    """The same words confirm, anything else is new."""
    new = entry(scope, memory_id, content, **fields)

    def decide(found: Sequence[Memory]) -> Plan:
        same = [m for m in found if fingerprint(m.content) == fingerprint(content)]
        if not same:
            return Plan((Insert(new, fingerprint(content)),))
        old = same[0]
        turns = tuple(dict.fromkeys((*old.turn_ids, *new.turn_ids)))
        return Plan((Update(replace(old, hit_count=old.hit_count + 1, turn_ids=turns), "confirmed", reindex=False),))

    return decide


async def supersede(records: SqlRecords, scope: Scope, old: str, new: Memory) -> None:
    """`new` replaces the entry `old` (L6)."""

    def decide(found: Sequence[Memory]) -> Plan:
        before = next(memory for memory in found if memory.id == old)
        retired = replace(before, status=Status.OUTDATED, valid_to=new.created_at)
        return Plan(
            (
                Update(retired, "superseded", reindex=False),
                Insert(replace(new, supersedes=MemoryId(old)), fingerprint(new.content)),
            )
        )

    await records.write(scope, Lookup(near=(MemoryId(old),), unindexed=0), decide, [], MANY)


def packed(seed: int = 0, tokens: int = 3) -> PackedTokens:
    """uint8 [tokens, 2]: eight dimensions."""
    return np.random.default_rng(seed).integers(0, 256, (tokens, 2), dtype=np.uint8)


def later(seconds: float = 0) -> datetime:
    """A time at which everything dirtied by now is due."""
    return datetime.now(UTC) + timedelta(seconds=seconds)


async def claim(
    records: SqlRecords, tenant: Scope, worker: str = "w", limit: int = 1000, **options: Any
) -> list[DirtyItem]:
    options.setdefault("lease_s", 30.0)
    options.setdefault("now", later())
    return await records.claim_dirty(system_scope(tenant.tenant_id), worker, limit, **options)


async def index_all(records: SqlRecords, tenant: Scope, seed: int = 0) -> None:
    """What the curator does, with an index that knows everything and token vectors out of a hat."""
    system = system_scope(tenant.tenant_id)
    while items := await claim(records, tenant, "indexer", now=later(3600)):
        for item in items:
            if item.memory is not None:
                await records.store_tokens(item.scope, item.memory_id, MODEL, item.memory.version, packed(seed))
                await records.finish_dirty(system, item, "indexer", None)
            else:
                await records.finish_dirty(system, item, "indexer", later() if item.phase == "apply" else None)
