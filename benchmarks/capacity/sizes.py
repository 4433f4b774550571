"""Bytes: of an entry in SQL and in the index, of a session, of a tenant's partition. Entries of two lengths, because token vectors grow
with the text: what lies between is interpolated."""

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import redis
from sqlalchemy import Connection, text

from benchmarks.phrases import memories, questions
from benchmarks.stores.vectors import DIMENSION, KeysInMemory, sample_vectors
from memory.encoding import Passage
from memory.entry import Kind, Memory, Source, Status
from memory.ids import MemoryId, SessionId, TenantId, TurnId, UserId
from memory.late import PER_BYTE
from memory.scope import Scope, system_scope
from memory.terms import terms
from memory.text import fingerprint
from memory.turns import NewTurn, Role, Session
from models.encoder import Encoder
from models.settings import EncoderSettings
from storage.index.blind import BlindIndex, KeyRing, PlainEntry
from storage.index.local import LocalIndex
from storage.keys import MasterKey, make_user_key
from storage.protocols import AuditEvent, Insert, Lookup, Plan, Read
from storage.records import SqlRecords, create_engine, migrate
from storage.sessions.client import SessionClient
from storage.sessions.redis_store import RedisSessions

MODEL_KEY = "bench_384"
SENTENCES = {"short": 1, "long": 4}
RECALLED = 5
"""Entries that a context call shows, and notes in the audit."""
PER_USER = 100
TOGETHER = 20
"""Reads that a replica puts on record in one transaction, at some tens of contexts a second."""


@dataclass(frozen=True)
class Texts:
    """Entries of one length, and how many token vectors one has on average."""

    texts: list[str]
    tokens: int


def samples(count: int) -> dict[str, Texts]:
    """`count` entries of each length, their token vectors counted by the real encoder."""
    encoder = Encoder.load(EncoderSettings())
    found = {}
    for length, sentences in SENTENCES.items():
        plain = memories(count * sentences)
        texts = [" ".join(plain[n * sentences : (n + 1) * sentences]) for n in range(count)]
        encoded = encoder.encode_passages([Passage(each) for each in texts[:64]])
        found[length] = Texts(texts, round(float(np.mean([len(one.tokens) for one in encoded]))))
    return found


def new_entry(scope: Scope, content: str, number: int, now: datetime) -> Memory:
    """As a turn of a conversation makes it: one source turn, three of context."""
    return Memory(
        id=MemoryId(f"m_{secrets.token_hex(13)}"),
        user_id=scope.user,
        content=content,
        kind=Kind.FACT,
        source=Source.USER,
        status=Status.ACTIVE,
        language="en",
        importance=0.5,
        confidence=0.6,
        version=1,
        created_at=now + timedelta(seconds=number),
        updated_at=now + timedelta(seconds=number),
        session_id=SessionId("s_" + "0" * 26),
        turn_ids=(TurnId(f"t_{number:026d}"),),
        context_turn_ids=tuple(TurnId(f"t_{number + before:026d}") for before in (1, 2, 3)),
    )


async def record_sizes(url: str, samples: dict[str, Texts]) -> dict[str, Any]:
    """Bytes an entry with all that hangs on it, in its lasting state (indexed, one revision, one audit row), by length; and bytes
    that a context call leaves in the audit."""
    await asyncio.to_thread(migrate, url)
    database = create_engine(url, 120.0)
    try:
        records = SqlRecords(database)
        found: dict[str, Any] = {}
        ids: list[MemoryId] = []
        tenant = TenantId(f"size_{secrets.token_hex(6)}")
        for length, sample in samples.items():
            before = await database_bytes(database)
            ids = await _fill(records, tenant, length, sample)
            grown = await database_bytes(database) - before
            found[length] = {"tokens": sample.tokens, "bytes": round(grown / len(sample.texts))}
        before, now = await database_bytes(database), datetime.now(UTC)
        scope = Scope(tenant, UserId(f"{length}0"))
        for _ in range(TOGETHER):
            await records.note_reads(system_scope(), _reads(scope, ids, now))
        found["context_bytes"] = round((await database_bytes(database) - before) / TOGETHER**2)
        found["entries"] = sum(len(sample.texts) for sample in samples.values())
        return found
    finally:
        await database.dispose()


def _reads(scope: Scope, ids: Sequence[MemoryId], now: datetime) -> list[Read]:
    """TOGETHER context calls, each of which showed other entries."""
    shown = [tuple(ids[n * RECALLED % PER_USER :][:RECALLED]) for n in range(TOGETHER)]
    return [Read(scope, AuditEvent("read", "key load", used, now, reason="context")) for used in shown]


def always(plan: Plan) -> Callable[[Sequence[Memory]], Plan]:
    return lambda _: plan


async def _fill(records: SqlRecords, tenant: TenantId, length: str, sample: Texts) -> list[MemoryId]:
    """The first user's entries' ids, in their order."""
    now, rng, first = datetime.now(UTC), np.random.default_rng(3), list[MemoryId]()
    master = MasterKey(secrets.token_bytes(32))
    for start in range(0, len(sample.texts), PER_USER):
        scope = Scope(tenant, UserId(f"{length}{start // PER_USER}"))
        system = system_scope(scope.tenant_id, scope.user)
        await records.user_key(scope, lambda: make_user_key(master, tenant))
        part = [new_entry(scope, each, start + n, now) for n, each in enumerate(sample.texts[start : start + PER_USER])]
        plan = Plan(tuple(Insert(memory, fingerprint(memory.content)) for memory in part))
        events = [AuditEvent("write", "key load", (memory.id,), now, memory.session_id) for memory in part]
        await records.write(scope, Lookup(), always(plan), events, 1_000_000)
        for memory in part:
            packed = rng.integers(0, 256, (sample.tokens, DIMENSION // PER_BYTE), dtype=np.uint8)
            await records.store_tokens(system, memory.id, MODEL_KEY, memory.version, packed)
        first = first or [memory.id for memory in part]
    while claimed := await records.claim_dirty(system_scope(tenant), "size", 500, 60.0, datetime.now(UTC)):
        for item in claimed:
            await records.finish_dirty(system_scope(tenant), item, "size", None)
    return first


async def database_bytes(database: Any) -> int:
    """Tables and indexes, as the database itself reckons them."""

    def work(connection: Connection) -> int:
        if connection.dialect.name == "sqlite":
            pages, free, size = (
                connection.scalar(text(f"PRAGMA {name}")) for name in ("page_count", "freelist_count", "page_size")
            )
            return int((pages - free) * size)
        if connection.dialect.name == "postgresql":
            return int(connection.scalar(text("SELECT pg_database_size(current_database())")))
        tables = connection.scalars(
            text("SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()")
        ).all()
        connection.execute(text("ANALYZE TABLE " + ", ".join(f"`{name}`" for name in tables))).all()
        if not getattr(
            connection.dialect, "is_mariadb", False
        ):  # MySQL 8 keeps these figures for a day unless told otherwise
            connection.execute(text("SET SESSION information_schema_stats_expiry = 0"))
        return int(
            connection.scalar(
                text(
                    "SELECT SUM(data_length + index_length) FROM information_schema.tables "
                    "WHERE table_schema = DATABASE()"
                )
            )
        )

    found: int = await database.write(work)
    return found


async def session_sizes(url: str, sessions: int = 300, turns: int = 20) -> dict[str, Any]:
    """Bytes of memory of an empty session and of each turn in it, by what the server says it uses."""
    client = SessionClient(url, deadline_s=10)
    with redis.Redis.from_url(url) as server:
        try:
            store = RedisSessions(client)
            now, tenant = datetime.now(UTC), TenantId(f"size_{secrets.token_hex(6)}")
            lines = questions(2 * turns)
            scopes = [Scope(tenant, UserId(f"u{n // 4}"), SessionId(f"s_{n:026d}")) for n in range(sessions)]
            used = [_used(server)]
            for scope in scopes:
                opened = Session(scope.session, scope.user, created_at=now, expires_at=now + timedelta(hours=1))
                await store.open(scope, opened, 3600, 100)
            used.append(_used(server))
            for half in range(2):
                for scope in scopes:
                    await store.append(scope, _turns(lines, half * turns, turns, now), 100_000)
                used.append(_used(server))
            for scope in scopes:
                await store.drop(scope)
        finally:
            await client.aclose()
    steps = np.diff(used) / sessions
    characters = float(np.mean([len(line) for line in lines]))
    return {
        "turn_bytes": round(float(steps[2]) / turns),
        "session_bytes": round(float(steps[0] + max(0.0, steps[1] - steps[2]))),
        "characters": round(characters),
        "sessions": sessions,
    }


def _turns(lines: Sequence[str], start: int, count: int, now: datetime) -> list[NewTurn]:
    return [
        NewTurn(TurnId(f"t_{n:026d}"), (Role.USER, Role.ASSISTANT)[n % 2], lines[n], tokens=12, at=now)
        for n in range(start, start + count)
    ]


def _used(server: "redis.Redis") -> int:
    return int(server.info("memory")["used_memory"])


async def index_sizes(folder: Path, samples: dict[str, Texts], tenants: int = 64) -> dict[str, Any]:
    """Of the local index: bytes of an empty partition, of an entry by length; memory of an open file."""
    keys = KeyRing(KeysInMemory(), MasterKey(secrets.token_bytes(32)))
    found: dict[str, Any] = {}
    for length, sample in samples.items():
        index = LocalIndex(folder / length, MODEL_KEY, DIMENSION, 60.0)
        scope = Scope(TenantId("t"), UserId("u"))
        await index.ensure_tenant(scope)
        await index.aclose()
        empty = folder_bytes(folder / length)
        index = LocalIndex(folder / length, MODEL_KEY, DIMENSION, 60.0)
        await index_entries(BlindIndex(index, keys), scope, sample)
        await index.aclose()
        full = folder_bytes(folder / length)
        found[length] = {"tokens": sample.tokens, "bytes": round((full - empty) / len(sample.texts))}
        found["partition_bytes"] = empty
    found["open_file_kb"] = await _open_file_kb(folder / "many", keys, samples["short"], tenants)
    found["entries"] = sum(len(sample.texts) for sample in samples.values())
    return found


async def index_entries(blind: BlindIndex, scope: Scope, sample: Texts) -> None:
    vectors = sample_vectors(len(sample.texts), 4)
    for start in range(0, len(sample.texts), PER_USER):
        user = Scope(scope.tenant_id, UserId(f"u{start // PER_USER}"))
        await blind.upsert(
            user,
            [
                PlainEntry(MemoryId(f"m_{n:026d}"), 1, vectors[n], tuple(terms(sample.texts[n])))
                for n in range(start, min(len(sample.texts), start + PER_USER))
            ],
        )


async def _open_file_kb(folder: Path, keys: KeyRing, sample: Texts, tenants: int) -> float:
    """What this process grows by for each partition that it holds open after a search, the user's vectors among it."""
    index = LocalIndex(folder, MODEL_KEY, DIMENSION, 60.0)
    blind = BlindIndex(index, keys)
    few = Texts(sample.texts[:PER_USER], sample.tokens)
    for number in range(tenants):
        await index.ensure_tenant(Scope(TenantId(f"t{number}")))
        await index_entries(blind, Scope(TenantId(f"t{number}")), few)
    await index.aclose()
    index = LocalIndex(folder, MODEL_KEY, DIMENSION, 60.0, open_files=tenants)
    blind, asked = BlindIndex(index, keys), sample_vectors(1, 5)[0]

    async def search(number: int) -> None:
        await blind.search(Scope(TenantId(f"t{number}"), UserId("u0")), asked, terms(sample.texts[0]), 50, 50)

    await search(0)
    before = psutil.Process().memory_full_info().uss
    for number in range(1, tenants):
        await search(number)
    after = psutil.Process().memory_full_info().uss
    await index.aclose()
    grown: int = after - before
    return round(grown / (tenants - 1) / 1024, 1)


def folder_bytes(folder: Path) -> int:
    """A file that goes while we look counts for nothing."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size if path.is_file() else 0
    return total
