"""One tenant's index as one SQLite file: statements and transactions, synchronous. `local.py` runs them in threads.

Write-ahead log, so that readers and a writer of any number of processes go together; every write is one IMMEDIATE transaction (a
deferred one could not be retried once it has read). `changed` is a counter that grows with every write and is kept per user and
entry: it tells other processes that their copy of a user's vectors is old, and what of it.

Postings are a table of our own and not FTS5, so that BM25 comes out as the production tier's server reckons it: FTS5 cuts the weight
of a term that half of the entries have to nothing, and takes a term of the turn before for a whole one in the length.
"""

import json
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from memory.encoding import Vector
from memory.errors import ConfigError, NotFound
from memory.ids import MemoryId, TenantId, UserRef, checked_id
from memory.lexical import K1, B, document
from storage.index.matrices import MatrixCache, UserMatrix
from storage.protocols import Hit, SealedEntry

_LAYOUT = 2
_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE users (user_ref TEXT PRIMARY KEY, changed INTEGER NOT NULL, entries INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE entries (
  seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, user_ref TEXT NOT NULL, version INTEGER NOT NULL, changed INTEGER NOT NULL,
  length REAL NOT NULL, terms TEXT NOT NULL
);
CREATE INDEX entries_of_user ON entries (user_ref, changed);
CREATE TABLE vectors (seq INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE TABLE postings (
  term TEXT NOT NULL, seq INTEGER NOT NULL, weight REAL NOT NULL, length REAL NOT NULL, PRIMARY KEY (term, seq)
) WITHOUT ROWID;
CREATE TABLE totals (entries INTEGER NOT NULL, worded INTEGER NOT NULL, length REAL NOT NULL);
INSERT INTO totals VALUES (0, 0, 0);
CREATE TRIGGER came AFTER INSERT ON entries BEGIN
  UPDATE totals SET entries = entries + 1, worded = worded + (new.length > 0), length = length + new.length;
END;
CREATE TRIGGER went AFTER DELETE ON entries BEGIN
  UPDATE totals SET entries = entries - 1, worded = worded - (old.length > 0), length = length - old.length;
  DELETE FROM vectors WHERE seq = old.seq;
END;
"""
_PRAGMAS = """
PRAGMA page_size = 8192;
PRAGMA secure_delete = ON;
PRAGMA temp_store = MEMORY;
PRAGMA trusted_schema = OFF;
PRAGMA cache_size = -4096;
PRAGMA journal_size_limit = 4194304;
PRAGMA synchronous = FULL;
"""
_WORDED = """
SELECT entries.id, entries.version, found.score
FROM (
  SELECT postings.seq AS seq, sum(asked.value * weight * ?6 / (weight + ?2 + ?3 * length)) AS score
  FROM json_each(?1) AS asked CROSS JOIN postings ON postings.term = asked.key
  GROUP BY postings.seq
) AS found CROSS JOIN entries ON entries.seq = found.seq
WHERE entries.user_ref = ?4 ORDER BY found.score DESC, entries.id LIMIT ?5
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
                # the clock begins with the time: a file made anew is never taken for the one before it
                [("layout", _LAYOUT), ("model", model_key), ("dimension", dimension), ("clock", time.time_ns())],
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


def _tick(connection: apsw.Connection) -> int:
    """The number of this write."""
    ((clock,),) = _rows(connection, "UPDATE meta SET value = value + 1 WHERE name = 'clock' RETURNING value")
    return int(clock)


def _note(connection: apsw.Connection, user_refs: set[str], clock: int) -> None:
    """These users' entries have changed; a user without any is forgotten."""
    for ref in user_refs:
        number = count(connection, UserRef(ref))
        if number:
            connection.execute("INSERT OR REPLACE INTO users VALUES (?, ?, ?)", (ref, clock, number))
        else:
            connection.execute("DELETE FROM users WHERE user_ref = ?", (ref,))


def _delete(connection: apsw.Connection, found: Iterable[tuple[int, str]]) -> None:
    """The entries of these sequence numbers and (as they keep them) terms."""
    for seq, terms in found:
        connection.executemany(
            "DELETE FROM postings WHERE term = ? AND seq = ?", [(term, seq) for term in terms.split()]
        )
        connection.execute("DELETE FROM entries WHERE seq = ?", (seq,))


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
        clock, touched = _tick(connection), set[str]()
        for entry, vector in zip(entries, vectors, strict=True):
            stored = _rows(connection, "SELECT seq, terms, user_ref, version FROM entries WHERE id = ?", (entry.id,))
            for seq, terms, owner, version in stored:
                if owner == entry.user_ref and version > entry.version:
                    break
                _delete(connection, [(seq, terms)])
                touched.add(owner)
            else:
                _insert(connection, entry, vector, clock)
                touched.add(entry.user_ref)
        _note(connection, touched, clock)


def _insert(connection: apsw.Connection, entry: SealedEntry, vector: Vector, clock: int) -> None:
    weights = document(entry.terms, entry.context_terms)
    length = sum(weights.values())
    connection.execute(
        "INSERT INTO entries (id, user_ref, version, changed, length, terms) VALUES (?, ?, ?, ?, ?, ?)",
        (entry.id, entry.user_ref, entry.version, clock, length, " ".join(weights)),
    )
    seq = connection.last_insert_rowid()
    connection.execute("INSERT INTO vectors VALUES (?, ?)", (seq, vector.tobytes()))
    connection.executemany(
        "INSERT INTO postings VALUES (?, ?, ?, ?)", [(term, seq, weight, length) for term, weight in weights.items()]
    )


def _among(ids: Sequence[MemoryId]) -> str:
    return json.dumps(list(ids))


def remove(connection: apsw.Connection, ids: Sequence[MemoryId]) -> set[str]:
    """Removes those of `ids` that are there. The references of the users who had them."""
    with writing(connection):
        found = _rows(
            connection,
            "SELECT seq, terms, user_ref FROM entries WHERE id IN (SELECT value FROM json_each(?))",
            (_among(ids),),
        )
        _delete(connection, [(seq, terms) for seq, terms, _ in found])
        owners = {owner for _, _, owner in found}
        if owners:
            _note(connection, owners, _tick(connection))
    return owners


def remove_user(connection: apsw.Connection, user_ref: UserRef) -> int:
    """Everything under this reference. Returns how many entries it had."""
    with writing(connection):
        found = _rows(connection, "SELECT seq, terms FROM entries WHERE user_ref = ?", (user_ref,))
        _delete(connection, found)
        if found:
            _note(connection, {user_ref}, _tick(connection))
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


def _matrix(connection: apsw.Connection, cache: MatrixCache, user_ref: str, dimension: int) -> UserMatrix | None:
    """The user's vectors as this snapshot has them; None for a user without any. What is kept in memory is brought up to date."""
    noted = _rows(connection, "SELECT changed, entries FROM users WHERE user_ref = ?", (user_ref,))
    if not noted:
        return None
    changed, number = noted[0]
    kept = cache.get(connection.filename, user_ref)
    if kept is not None and kept.changed == changed:
        return kept
    matrix = None
    if kept is not None and kept.changed < changed:
        matrix = kept.updated(changed, *_vectors(connection, user_ref, kept.changed, dimension))
    if matrix is None or len(matrix.ids) != number:  # nothing kept, or some of it has gone
        matrix = UserMatrix(changed, *_vectors(connection, user_ref, 0, dimension))
    cache.put(connection.filename, user_ref, matrix)
    return matrix


def _vectors(
    connection: apsw.Connection, user_ref: str, after: int, dimension: int
) -> tuple[tuple[MemoryId, ...], tuple[int, ...], NDArray[np.float32]]:
    """What changed of a user's after that write, in ascending order of ids."""
    rows = _rows(
        connection,
        "SELECT id, version, vector FROM entries JOIN vectors USING (seq) WHERE user_ref = ? AND changed > ?",
        (user_ref, after),
    )
    rows.sort(key=lambda row: row[0])
    vectors = np.frombuffer(b"".join(row[2] for row in rows), dtype=np.float32).reshape(len(rows), dimension)
    return tuple(MemoryId(row[0]) for row in rows), tuple(row[1] for row in rows), vectors


def _worded(connection: apsw.Connection, user_ref: str, terms: Sequence[str], limit: int) -> list[Any]:
    """BM25 as memory/lexical.py and the production tier's server reckon it: count and mean length of the whole
    partition, document frequencies of the terms, which are this user's own because they are sealed; the filter stands all the same.
    """
    ((entries, worded, length),) = _rows(connection, "SELECT entries, worded, length FROM totals")
    frequencies = _rows(
        connection,
        "SELECT term, count(*) FROM postings WHERE term IN (SELECT value FROM json_each(?)) GROUP BY term",
        (json.dumps(terms),),
    )
    if not frequencies:
        return []
    idf = {term: math.log1p((entries - number + 0.5) / (number + 0.5)) for term, number in frequencies}
    saturation = K1 * (1 - B), K1 * B * worded / length
    return _rows(connection, _WORDED, (json.dumps(idf), *saturation, user_ref, limit, K1 + 1))


def search(
    connection: apsw.Connection,
    cache: MatrixCache,
    user_ref: str,
    vector: Vector | None,
    terms: Sequence[str],
    vector_limit: int,
    keyword_limit: int,
) -> list[Hit]:
    """Both arms over this user's entries alone, from one snapshot."""
    with reading(connection):
        near: list[tuple[MemoryId, int, float]] = []
        if vector is not None and vector_limit:
            matrix = _matrix(connection, cache, user_ref, len(vector))
            near = [] if matrix is None else matrix.nearest(vector, vector_limit)
        worded = _worded(connection, user_ref, terms, keyword_limit) if terms and keyword_limit else []
    hits = {found: Hit(found, version, cosine, None) for found, version, cosine in near}
    for found, version, score in worded:
        cosine = hits[found].cosine if found in hits else None
        hits[found] = Hit(MemoryId(found), version, cosine, score)
    return list(hits.values())


def scrub(connection: apsw.Connection, keep_waiting: KeepWaiting) -> None:
    """What was removed leaves the file and the log. Freed content is zeroed at once (secure_delete), but a row that moved to another
    page leaves a copy behind, so the file is written anew; then the log is emptied."""
    connection.execute("PRAGMA temp_store = FILE; VACUUM; PRAGMA temp_store = MEMORY;")
    tries = 0
    while _rows(connection, "PRAGMA wal_checkpoint(TRUNCATE)")[0][0]:  # busy: somebody still reads the log
        if not keep_waiting(tries):
            raise apsw.BusyError
        tries += 1


def clear(connection: apsw.Connection, keep_waiting: KeepWaiting) -> None:
    """Everything goes but the file, which says that it was dropped: another process that has it open must not go on writing."""
    with writing(connection):
        _tick(connection)
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('dropped', 1)")
        connection.execute("DELETE FROM entries; DELETE FROM postings; DELETE FROM users;")
    scrub(connection, keep_waiting)


def pause(tries: int, jitter: float) -> None:
    """Between two tries for a lock: from one millisecond to fifty, `jitter` in 0..1 spreads them."""
    time.sleep(min(0.05, 0.001 * 2 ** min(tries, 6)) * (0.5 + jitter))
