"""One tenant's index as one SQLite file: statements and transactions, synchronous. `local.py` runs them in threads.

Write-ahead log, so that readers and a writer of any number of processes go together; every write is one IMMEDIATE transaction (a
deferred one could not be retried once it has read). `changed` is a counter that grows with every write and is kept per user: it
tells other processes that their copy of a user's vectors is old.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from memory.encoding import Vector
from memory.errors import ConfigError, NotFound
from memory.ids import MemoryId, TenantId, UserRef, checked_id
from storage.index.matrices import MatrixCache, UserMatrix
from storage.protocols import Hit, SealedEntry

_LAYOUT = 1
_WORDS = """
CREATE VIRTUAL TABLE words USING fts5(terms, context_terms, tokenize = 'unicode61');
INSERT INTO words(words, rank) VALUES ('secure-delete', 1);
"""
_SCHEMA = (
    """
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE users (user_ref TEXT PRIMARY KEY, changed INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE entries (
  seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, user_ref TEXT NOT NULL, version INTEGER NOT NULL
);
CREATE INDEX entries_of_user ON entries (user_ref);
CREATE TABLE vectors (seq INTEGER PRIMARY KEY, vector BLOB NOT NULL);
"""
    + _WORDS
)
_PRAGMAS = """
PRAGMA page_size = 8192;
PRAGMA secure_delete = ON;
PRAGMA temp_store = MEMORY;
PRAGMA trusted_schema = OFF;
PRAGMA cache_size = -4096;
PRAGMA journal_size_limit = 4194304;
PRAGMA synchronous = FULL;
"""


def _rows(connection: apsw.Connection, statement: str, values: Sequence[Any] = ()) -> list[Any]:
    return connection.execute(statement, values).fetchall()


KeepWaiting = Callable[[int], bool]
"""Called when a lock is held by another, with how often it was called before: waits a little, False to give up."""


FILES = "t-*.db"


def file_name(tenant_id: TenantId) -> str:
    """A file name that differs wherever the ids differ, also where the file system ignores case: `Acme` is `t-=acme.db`."""
    checked_id(tenant_id, "tenant_id")
    return "t-" + "".join(f"={c.lower()}" if c.isupper() else c for c in tenant_id) + ".db"


def tenant_of(path: Path) -> TenantId:
    """Whose file it is: `file_name` read backwards."""
    return TenantId(re.sub("=(.)", lambda found: found[1].upper(), path.name[len("t-") : -len(".db")]))


def connect(
    path: Path, model_key: str, dimension: int, create: bool, keep_waiting: KeepWaiting
) -> apsw.Connection | None:
    """An open connection, or None where there is no index yet and none is to be made. ConfigError where it is another model's."""
    if not create and not path.exists():
        return None
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
    connection = apsw.Connection(str(path), flags=flags)
    try:
        connection.set_busy_handler(keep_waiting)
        _rows(connection, _PRAGMAS)
        if not _has_schema(connection):
            if not create:
                connection.close()
                return None
            _create(connection, model_key, dimension, keep_waiting)
        _check(connection, path, model_key, dimension)
    except BaseException:
        connection.close(True)
        raise
    return connection


def _has_schema(connection: apsw.Connection) -> bool:
    # a query, because apsw's own table_exists answers from a cache that another process's CREATE does not renew
    return bool(_rows(connection, "SELECT 1 FROM sqlite_schema WHERE name = 'meta'"))


def _create(connection: apsw.Connection, model_key: str, dimension: int, keep_waiting: KeepWaiting) -> None:
    tries = 0
    while True:  # going over to WAL does not ask the busy handler
        try:
            _rows(connection, "PRAGMA journal_mode = WAL")
            break
        except apsw.BusyError:
            if not keep_waiting(tries):
                raise
            tries += 1
    with writing(connection):
        if not _has_schema(connection):  # two processes at once: the other one was first
            connection.execute(_SCHEMA)
            connection.executemany(
                "INSERT INTO meta VALUES (?, ?)",
                [("layout", _LAYOUT), ("model", model_key), ("dimension", dimension), ("clock", 0)],
            )


def _check(connection: apsw.Connection, path: Path, model_key: str, dimension: int) -> None:
    meta = dict(connection.execute("SELECT name, value FROM meta"))
    if meta.get("layout") != _LAYOUT:
        raise ConfigError(
            str(path), "was written by another version of Strata; move it away and have its entries indexed again"
        )
    if (meta.get("model"), meta.get("dimension")) != (model_key, dimension):
        raise ConfigError(
            str(path),
            f"holds vectors of the model {meta.get('model')}, not of {model_key}; configure that model again, or move the file away "
            "and have its entries indexed again",
        )


@contextmanager
def writing(connection: apsw.Connection) -> Iterator[None]:
    """One write transaction: all or nothing."""
    with _transaction(connection, "BEGIN IMMEDIATE"):
        yield


@contextmanager
def reading(connection: apsw.Connection) -> Iterator[None]:
    """One snapshot for several statements."""
    with _transaction(connection, "BEGIN"):
        yield


@contextmanager
def _transaction(connection: apsw.Connection, begin: str) -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _tick(connection: apsw.Connection, user_refs: set[str]) -> None:
    """The users' entries have changed; a user without any is forgotten."""
    (clock,) = _rows(connection, "UPDATE meta SET value = value + 1 WHERE name = 'clock' RETURNING value")[0]
    for ref in user_refs:
        if _rows(connection, "SELECT 1 FROM entries WHERE user_ref = ? LIMIT 1", (ref,)):
            connection.execute("INSERT OR REPLACE INTO users VALUES (?, ?)", (ref, clock))
        else:
            connection.execute("DELETE FROM users WHERE user_ref = ?", (ref,))


def is_dropped(connection: apsw.Connection) -> bool:
    return bool(_rows(connection, "SELECT 1 FROM meta WHERE name = 'dropped'"))


def revive(connection: apsw.Connection) -> None:
    """A file that was emptied by `clear` is a partition again."""
    with writing(connection):
        connection.execute("DELETE FROM meta WHERE name = 'dropped'")


def upsert(connection: apsw.Connection, entries: Sequence[SealedEntry], vectors: Sequence[Vector]) -> None:
    """Newer or equal versions replace; an older one of the same user (a worker that was stalled) changes nothing.
    NotFound("partition") after `clear`, whichever process it was in: a late write brings nothing back."""
    with writing(connection):
        if is_dropped(connection):
            raise NotFound("partition")
        touched: set[str] = set()
        for entry, vector in zip(entries, vectors, strict=True):
            stored = _rows(connection, "SELECT seq, user_ref, version FROM entries WHERE id = ?", (entry.id,))
            if stored:
                seq, owner, version = stored[0]
                if owner == entry.user_ref and version > entry.version:
                    continue
                touched.add(owner)
                connection.execute(
                    "UPDATE entries SET user_ref = ?, version = ? WHERE seq = ?", (entry.user_ref, entry.version, seq)
                )
                connection.execute("DELETE FROM words WHERE rowid = ?", (seq,))
            else:
                connection.execute(
                    "INSERT INTO entries (id, user_ref, version) VALUES (?, ?, ?)",
                    (entry.id, entry.user_ref, entry.version),
                )
                seq = connection.last_insert_rowid()
            connection.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?)", (seq, vector.tobytes()))
            touched.add(entry.user_ref)
            connection.execute(
                "INSERT INTO words (rowid, terms, context_terms) VALUES (?, ?, ?)",
                (seq, " ".join(entry.terms), " ".join(entry.context_terms)),
            )
        if touched:
            _tick(connection, touched)


def _among(ids: Sequence[MemoryId]) -> str:
    return json.dumps(list(ids))


def remove(connection: apsw.Connection, ids: Sequence[MemoryId]) -> set[str]:
    """Removes those of `ids` that are there. The references of the users who had them."""
    with writing(connection):
        found = _rows(
            connection, "SELECT seq, user_ref FROM entries WHERE id IN (SELECT value FROM json_each(?))", (_among(ids),)
        )
        for seq, _ in found:
            connection.execute("DELETE FROM words WHERE rowid = ?", (seq,))
            connection.execute("DELETE FROM vectors WHERE seq = ?", (seq,))
            connection.execute("DELETE FROM entries WHERE seq = ?", (seq,))
        owners = {owner for _, owner in found}
        if owners:
            _tick(connection, owners)
    return owners


def remove_user(connection: apsw.Connection, user_ref: UserRef) -> int:
    """Everything under this reference. Returns how many entries it had."""
    with writing(connection):
        found = _rows(connection, "SELECT seq FROM entries WHERE user_ref = ?", (user_ref,))
        connection.executemany("DELETE FROM words WHERE rowid = ?", found)
        connection.executemany("DELETE FROM vectors WHERE seq = ?", found)
        connection.execute("DELETE FROM entries WHERE user_ref = ?", (user_ref,))
        if found:
            _tick(connection, {user_ref})
    return len(found)


def versions(connection: apsw.Connection, ids: Sequence[MemoryId]) -> dict[MemoryId, int]:
    rows = connection.execute(
        "SELECT id, version FROM entries WHERE id IN (SELECT value FROM json_each(?))", (_among(ids),)
    )
    return {MemoryId(found): version for found, version in rows}


def walk(connection: apsw.Connection, after: str | None, limit: int) -> list[tuple[MemoryId, int]]:
    rows = connection.execute("SELECT id, version FROM entries WHERE id > ? ORDER BY id LIMIT ?", (after or "", limit))
    return [(MemoryId(found), version) for found, version in rows]


def count(connection: apsw.Connection, user_ref: UserRef | None) -> int:
    """Of one reference; None: of all."""
    if user_ref is None:
        ((number,),) = _rows(connection, "SELECT count(*) FROM entries")
    else:
        ((number,),) = _rows(connection, "SELECT count(*) FROM entries WHERE user_ref = ?", (user_ref,))
    return int(number)


def _matrix(connection: apsw.Connection, user_ref: str, changed: int, dimension: int) -> UserMatrix:
    rows = _rows(
        connection, "SELECT id, version, vector FROM entries JOIN vectors USING (seq) WHERE user_ref = ?", (user_ref,)
    )
    rows.sort(key=lambda row: row[0])
    vectors = np.frombuffer(b"".join(row[2] for row in rows), dtype=np.float32).reshape(len(rows), dimension)
    return UserMatrix(changed, tuple(MemoryId(row[0]) for row in rows), tuple(row[1] for row in rows), vectors)


def search(
    connection: apsw.Connection,
    cache: MatrixCache,
    user_ref: str,
    vector: Vector | None,
    terms: Sequence[str],
    vector_limit: int,
    keyword_limit: int,
    context_weight: float,
) -> list[Hit]:
    """Both arms over this user's entries alone, from one snapshot."""
    with reading(connection):
        changed = _rows(connection, "SELECT changed FROM users WHERE user_ref = ?", (user_ref,))
        if not changed:
            return []
        near: list[tuple[MemoryId, int, float]] = []
        if vector is not None and vector_limit:
            partition = connection.filename
            matrix = cache.get(partition, user_ref, changed[0][0])
            if matrix is None:
                matrix = _matrix(connection, user_ref, changed[0][0], len(vector))
                cache.put(partition, user_ref, matrix)
            near = matrix.nearest(vector, vector_limit)
        worded: list[tuple[MemoryId, int, float]] = []
        if terms and keyword_limit:
            # MATCH meets this user's postings alone, because the terms are sealed under his key; the filter stands all the same
            worded = _rows(
                connection,
                "SELECT entries.id, entries.version, -bm25(words, 1.0, ?1) AS score FROM words JOIN entries ON entries.seq = words.rowid "
                "WHERE words MATCH ?2 AND entries.user_ref = ?3 ORDER BY score DESC, entries.id LIMIT ?4",
                (context_weight, " OR ".join(f'"{term}"' for term in terms), user_ref, keyword_limit),
            )
    hits = {found: Hit(found, version, cosine, None) for found, version, cosine in near}
    for found, version, score in worded:
        cosine = hits[found].cosine if found in hits else None
        hits[MemoryId(found)] = Hit(MemoryId(found), version, cosine, score)
    return list(hits.values())


def scrub(connection: apsw.Connection, keep_waiting: KeepWaiting) -> None:
    """What was removed leaves the file and the log: postings rewritten, pages zeroed (secure_delete), the log emptied."""
    with writing(connection):
        connection.execute("INSERT INTO words(words) VALUES ('optimize')")
    tries = 0
    while _rows(connection, "PRAGMA wal_checkpoint(TRUNCATE)")[0][0]:  # busy: somebody still reads the log
        if not keep_waiting(tries):
            raise apsw.BusyError
        tries += 1


def clear(connection: apsw.Connection, keep_waiting: KeepWaiting) -> None:
    """Everything goes but the file, which says that it was dropped: another process that has it open must not go on writing."""
    with writing(connection):
        _tick(connection, set())
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('dropped', 1)")
        connection.execute("DELETE FROM entries; DELETE FROM vectors; DELETE FROM users; DROP TABLE words;")
        connection.execute(_WORDS)
    connection.execute("VACUUM")
    scrub(connection, keep_waiting)


def pause(tries: int, jitter: float) -> None:
    """Between two tries for a lock: from one millisecond to fifty, `jitter` in 0..1 spreads them."""
    time.sleep(min(0.05, 0.001 * 2 ** min(tries, 6)) * (0.5 + jitter))
