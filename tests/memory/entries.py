"""Entries for the tests of recall's rules."""

from datetime import UTC, datetime
from typing import Any

from memory.entry import Kind, Memory, Source, Status
from memory.ids import MemoryId, UserId

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


def entry(id: str, content: str, kind: Kind = Kind.FACT, **fields: Any) -> Memory:
    """Said by the user, active, of today, confidence 0.6."""
    values: dict[str, Any] = {
        "source": Source.USER,
        "status": Status.ACTIVE,
        "language": "zh",
        "importance": 0.5,
        "confidence": 0.6,
        "version": 1,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Memory(id=MemoryId(id), user_id=UserId("user"), kind=kind, content=content, **(values | fields))
