"""Data as each revision of the schema held it: written by that revision's own columns, for the migrations that lead on."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, Connection, MetaData, Table, insert

from memory.analysis import kept
from storage.records.types import UtcDateTime, digest, name_digest, sort_digest

AT = datetime(2026, 3, 2, 12, 0, 0, 123456, tzinfo=UTC)

_T = {"tenant_id": "t"}
_ALICE = {**_T, "user_id": "alice"}
_ENTRY: dict[str, Any] = {
    **_ALICE,
    "kind": "fact",
    "source": "user",
    "status": "active",
    "language": "zh",
    "importance": 0.5,
    "confidence": 0.6,
    "version": 1,
    "created_at": AT,
    "updated_at": AT,
    "exclusive": True,
    "entities": [],
    "session_id": "s1",
    "turn_ids": [],
    "context_turn_ids": [],
    "access_count": 0,
    "hit_count": 1,
    "metadata": {},
    "fingerprint_digest": digest("f"),
}
_LINE: dict[str, Any] = {
    **_ALICE,
    "kind": "fact",
    "status": "active",
    "confidence": 0.6,
    "at": AT,
    "session_id": "s1",
    "turns": [],
    "fingerprint_digest": digest("f"),
    "entities": [],
}
_WAITING: dict[str, Any] = {**_ALICE, "mark": 7, "phase": "apply", "since": AT, "due_at": AT, "attempts": 0}

_FIRST: dict[str, list[dict[str, Any]]] = {
    "tenants": [{"id": "t", "display_name": "商店", "policy": {"a": 1}, "version": 3, "suspended": False}],
    "tenant_keys": [
        {"id": "key_1", **_T, "name": "one", "digest": b"\x00\xff", "grants": ["memory"], "expires_at": AT}
    ],
    "users": [{**_ALICE, "ref": "ref_alice", "wrapped": b"wrapped", "created_at": AT}],
    "memories": [
        {**_ENTRY, "id": "m0", "content": "住在广州", "status": "outdated", "valid_to": AT},
        {
            **_ENTRY,
            "id": "m1",
            "content": "住在北京",
            "version": 2,
            "entities": ["北京"],
            "turn_ids": ["t1"],
            "metadata": {"k": "值"},
            "supersedes": "m0",
            "subject": "home:city",
            "subject_digest": digest("home:city"),
        },
        {**_ENTRY, "id": "gone", "exclusive": False, "deleted_at": AT, "receipt_id": "rcp_1"},
        {**_ENTRY, "id": "b1", "user_id": "bob", "content": "Bob's."},  # of a user who has no row yet
    ],
    "memory_turns": [{**_ALICE, "memory_id": "m1", "role": "source", "session_id": "s1", "turn_id": "t1"}],
    "memory_entities": [{**_ALICE, "memory_id": "m1", "name_digest": name_digest("北京")}],
    "memory_tokens": [
        {
            **_ALICE,
            "memory_id": "m1",
            "model_key": "model_8",
            "version": 2,
            "dimension": 8,
            "tokens": bytes(range(6)),
            "stored_at": AT,
        }
    ],
    "revisions": [
        {**_LINE, "memory_id": "m1", "version": 1, "content": "住在上海", "change": "stored"},
        {**_LINE, "memory_id": "m1", "version": 2, "content": "住在北京", "change": "corrected", "entities": ["北京"]},
        {**_LINE, "memory_id": "m0", "version": 1, "content": "住在广州", "change": "stored"},
    ],
    "dirty": [{**_WAITING, "memory_id": "m1"}, {**_WAITING, "memory_id": "gone"}],
    "audit": [
        {**_ALICE, "event_id": "e1", "at": AT, "action": "write", "actor": "key", "memory_id": "m1", "reason": ""}
    ],
    "receipts": [
        {**_ALICE, "id": "rcp_1", "action": "delete", "count": 1, "pending": 1, "requested_at": AT, "records_at": AT},
        {
            **_ALICE,
            "id": "rcp_2",
            "action": "delete",
            "count": 0,
            "pending": 0,
            "requested_at": AT,
            "records_at": AT,
            "completed_at": AT,
        },
    ],
}
_SECOND: dict[str, list[dict[str, Any]]] = {
    **_FIRST,
    "users": [*_FIRST["users"], {**_T, "user_id": "bob", "created_at": AT}],
    "erasures": [
        {
            **_T,
            "receipt_id": "rcp_3",
            "user_id": "carol",
            "refs": ["ref_carol"],
            "phase": "verify",
            "due_at": AT,
            "attempts": 2,
            "requested_at": AT,
        }
    ],
    "index_versions": [
        {"model_key": "model_8", "dimension": 8, "state": "active", "details": {"name": "模型"}, "created_at": AT}
    ],
    "placements": [{**_T, "model_key": "model_8", "place": "shard", "since": AT}],
}

_THIRD: dict[str, list[dict[str, Any]]] = {
    **_SECOND,
    "memories": [{**row, "sort_digest": sort_digest(row.get("subject"))} for row in _FIRST["memories"]],
}

_FOURTH: dict[str, list[dict[str, Any]]] = {
    **_THIRD,
    "memories": [
        {**row, "analysis": row.get("content") and kept(row["content"], row.get("subject"))}
        for row in _THIRD["memories"]
    ],
}

REVISIONS_WITH_DATA = {"0001": _FIRST, "0002": _SECOND, "0003": _THIRD, "0004": _FOURTH}


def fill(connection: Connection, revision: str) -> None:
    """Into the tables as they are, not as the code of today declares them."""
    there = MetaData()
    for name, rows in REVISIONS_WITH_DATA[revision].items():
        table = Table(name, there, autoload_with=connection, resolve_fks=False)
        for row in rows:
            connection.execute(insert(table).values(_plain(table, row)))


def _plain(table: Table, row: dict[str, Any]) -> dict[str, Any]:
    """Times and documents go in as they always did, whatever a database calls the type of their column."""
    for name, value in row.items():
        if isinstance(value, datetime):
            table.c[name].type = UtcDateTime()
        elif isinstance(value, dict | list):
            table.c[name].type = JSON()
    return row
