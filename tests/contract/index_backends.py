"""The backends that the index's contract suite runs against, and small makers for its tests.

A backend opens the same index as often as asked (as two processes would), can search it with no filter at all, and shows the raw
bytes that it keeps. A further backend is one more entry in `BACKENDS`.
"""

import base64
import json
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import apsw
import numpy as np
import pytest

from memory.ids import MemoryId, TenantId, UserId, UserRef
from memory.scope import Scope
from memory.terms import terms
from storage.index.blind import BlindIndex, PlainEntry
from storage.index.keyring import KeyRing
from storage.index.local import LocalIndex
from storage.index.partition import file_name
from storage.keys import MasterKey
from storage.protocols import SealedEntry, SealedQuery, UserKey, VectorIndex

DIMENSION = 32
MODEL = "test_model_32_0123456789"
TENANT = TenantId("acme")


class LocalBackend:
    """SQLite files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opened: list[LocalIndex] = []

    async def open(self, dimension: int = DIMENSION, **options: object) -> LocalIndex:
        """The index, with a partition for `TENANT`."""
        index = self.bare(dimension, **options)
        await index.ensure_tenant(scope())
        return index

    def bare(self, dimension: int = DIMENSION, **options: object) -> LocalIndex:
        index = LocalIndex(self.folder, MODEL, dimension, **{"deadline_s": 20.0, **options})
        self._opened.append(index)
        return index

    async def aclose(self) -> None:
        for index in self._opened:
            await index.aclose()

    async def raw_bytes(self) -> bytes:
        """All that is on disk, file names included."""
        return b"\n".join(path.name.encode() + path.read_bytes() for path in sorted(self.folder.iterdir()))

    async def unfiltered(
        self, tenant: TenantId, vector: np.ndarray, words: Sequence[str]
    ) -> tuple[dict[str, float], set[str]]:
        """Every entry's cosine with `vector`, and every entry with one of `words`: as a search that forgot its filter."""
        connection = apsw.Connection(str(self.folder / file_name(tenant)))
        rows = connection.execute("SELECT id, vector FROM entries JOIN vectors USING (seq)").fetchall()
        cosines = {found: float(np.frombuffer(blob, np.float32) @ vector) for found, blob in rows}
        worded = connection.execute(
            "SELECT DISTINCT id FROM postings JOIN entries USING (seq) WHERE term IN (SELECT value FROM json_each(?))",
            (json.dumps(list(words)),),
        ).fetchall()
        connection.close()
        return cosines, {found for (found,) in worded}


BACKENDS: dict[str, Callable[[Path], LocalBackend]] = {"local": LocalBackend}


@pytest.fixture(params=sorted(BACKENDS))
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LocalBackend]:
    made = BACKENDS[request.param](tmp_path / "index")
    yield made
    await made.aclose()


@pytest.fixture
async def index(backend: LocalBackend) -> VectorIndex:
    return await backend.open()


async def walked(index: VectorIndex | BlindIndex, whose: Scope, page: int = 1_000) -> list[tuple[MemoryId, int]]:
    """Every entry of the partition with its version, in the index's own order."""
    entries: list[tuple[MemoryId, int]] = []
    cursor = None
    while True:
        found = await index.walk(whose, cursor, page)
        assert len(found.entries) <= page
        entries += found.entries
        cursor = found.next_cursor
        if cursor is None:
            return entries


async def ids_of(index: VectorIndex | BlindIndex, whose: Scope) -> list[MemoryId]:
    return sorted(found for found, _ in await walked(index, whose))


class KeysOfATest:
    """Users' keys as the records keep them, for tests that need no records."""

    def __init__(self) -> None:
        self.stored: dict[tuple[str, str], UserKey] = {}
        self.calls = 0

    async def user_key(self, scope: Scope, make: Callable[[], UserKey]) -> UserKey:
        self.calls += 1
        return self.stored.setdefault((scope.tenant_id, scope.user), make())


MASTER = MasterKey(bytes(range(32)))


@pytest.fixture
def blind(index: VectorIndex) -> BlindIndex:
    return BlindIndex(index, KeyRing(KeysOfATest(), MASTER))


def scope(user: str | None = None, tenant: str = TENANT) -> Scope:
    return Scope(TenantId(tenant), user and UserId(user))


def unit(rows: int, dimension: int = DIMENSION, seed: int = 0) -> np.ndarray:
    """float32 [rows, dimension], unit length, in all directions."""
    vectors = np.random.default_rng(seed).standard_normal((rows, dimension)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def alike(rows: int, dimension: int = 384, seed: int = 0) -> np.ndarray:
    """Vectors as an e5 model makes them: all in one cone, cosines about .8, whatever they are about."""
    common = unit(1, dimension, seed=987)[0]
    vectors = 2 * common + unit(rows, dimension, seed)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def token(word: str) -> str:
    """A word as one sealed-looking term, without sealing."""
    return base64.b32encode(word.encode()).decode().rstrip("=").lower()


def sealed(
    id: str, vector: np.ndarray, text: str = "", *, user: str = "u_1", version: int = 1, context: str = ""
) -> SealedEntry:
    return SealedEntry(
        MemoryId(id),
        UserRef(user),
        version,
        vector,
        tuple(token(term) for term in terms(text)),
        tuple(token(term) for term in terms(context)),
    )


def asking(vector: np.ndarray | None = None, text: str = "", *, user: str = "u_1") -> SealedQuery:
    return SealedQuery(UserRef(user), vector, tuple(token(term) for term in terms(text)))


def plain(id: str, vector: np.ndarray, text: str = "", *, version: int = 1, context: str = "") -> PlainEntry:
    return PlainEntry(MemoryId(id), version, vector, tuple(terms(text)), tuple(terms(context)))
