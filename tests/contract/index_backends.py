"""The backends that the index's contract suite runs against, and small makers for its tests.

A backend opens the same index as often as asked (as two processes would), can search it with no filter at all, and shows the raw
bytes that it keeps. A further backend is one more entry in `BACKENDS`. `weaviate` is the real server that STRATA_TEST_WEAVIATE names;
without one it is `weaviate-standin`, which shows that we use the server rightly and not what the server does (tests/standin).
"""

import asyncio
import base64
import json
import os
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import apsw
import grpc
import httpx
import numpy as np
import pytest
from weaviate import use_async_with_custom
from weaviate.classes.query import MetadataQuery
from weaviate.proto.v1.v6300.v1 import search_get_pb2, weaviate_pb2_grpc

from memory.ids import MemoryId, TenantId, UserId, UserRef
from memory.scope import Scope
from memory.terms import terms
from storage.index.blind import BlindIndex, PlainEntry
from storage.index.keyring import KeyRing
from storage.index.local import LocalIndex
from storage.index.partition import file_name
from storage.index.weaviate.index import WeaviateIndex
from storage.index.weaviate.settings import WeaviateSettings
from storage.keys import MasterKey
from storage.protocols import SealedEntry, SealedQuery, UserKey, VectorIndex
from tests.standin.running import REAL, weaviate_address

DIMENSION = 32
MODEL = "test_model_32_0123456789"
TENANT = TenantId("acme")


class LocalBackend:
    """SQLite files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.arguments = ["local", str(folder)]
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

    async def discard(self) -> None:
        """The folder goes by itself."""
        await self.aclose()

    async def raw_bytes(self) -> bytes:
        """All that is on disk, file names included."""
        return b"\n".join(path.name.encode() + path.read_bytes() for path in sorted(self.folder.iterdir()))

    readable_bytes = raw_bytes

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


class WeaviateBackend:
    """Collections of a name of their own on a server that others use too."""

    def __init__(self, folder: Path, address: str = "", prefix: str = "") -> None:
        self._address, self._prefix = address or weaviate_address(), prefix or f"Contract{secrets.token_hex(6)}"
        self.arguments = ["weaviate", str(folder), self._address, self._prefix]
        self._http, _, port = self._address.rpartition(",")
        grpc_address = f"{urlsplit(self._http).hostname}:{port}"
        self._settings = WeaviateSettings(http=self._http, grpc=grpc_address, collection=self._prefix)
        self._opened: list[WeaviateIndex] = []

    async def open(self, dimension: int = DIMENSION, **options: object) -> WeaviateIndex:
        index = self.bare(dimension, **options)
        await index.ensure_tenant(scope())
        return index

    def bare(self, dimension: int = DIMENSION, **options: object) -> WeaviateIndex:
        index = WeaviateIndex(self._settings, None, MODEL, dimension, **{"deadline_s": 20.0, **options})
        self._opened.append(index)
        return index

    async def aclose(self) -> None:
        for index in self._opened:
            await index.aclose()

    async def discard(self) -> None:
        await self.aclose()
        async with self._rest() as rest:
            for name in await self._collections(rest, f"{self._prefix}_"):
                await rest.delete(f"/schema/{name}")

    def _rest(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=f"{self._http}/v1", timeout=60, trust_env=False)

    async def _collections(self, rest: httpx.AsyncClient, beginning: str) -> list[str]:
        listed = (await rest.get("/schema")).json()["classes"] or []
        return [each["class"] for each in listed if each["class"].startswith(beginning)]

    async def readable_bytes(self) -> bytes:
        """Every object with all its properties and vectors, as both protocols send them; configurations and tenants' names."""
        parts = []
        async with self._rest() as rest:
            for name in await self._collections(rest, f"{self._prefix}_{MODEL}"):
                tenants = await rest.get(f"/schema/{name}/tenants")
                parts += [(await rest.get(f"/schema/{name}")).content, tenants.content]
                for tenant in tenants.json():
                    about = {"class": name, "tenant": tenant["name"], "limit": 1_000, "include": "vector"}
                    parts += [
                        (await rest.get("/objects", params=about)).content,
                        await self._wire(name, tenant["name"]),
                    ]
        return b"\n".join(parts)

    async def _wire(self, name: str, tenant: str) -> bytes:
        async with grpc.aio.insecure_channel(self._settings.grpc) as channel:
            search = weaviate_pb2_grpc.WeaviateStub(channel).Search
            everything = search_get_pb2.MetadataRequest(uuid=True, vector=True, vectors=["default"])
            properties = search_get_pb2.PropertiesRequest(return_all_nonref_properties=True)
            request = search_get_pb2.SearchRequest(
                collection=name,
                tenant=tenant,
                limit=1_000,
                metadata=everything,
                properties=properties,
                uses_123_api=True,
                uses_125_api=True,
                uses_127_api=True,
            )
            return (await search(request)).SerializeToString()

    async def raw_bytes(self) -> bytes:
        """Also the server's own files, where STRATA_TEST_WEAVIATE_DATA says in which folder they are."""
        folder = os.environ.get("STRATA_TEST_WEAVIATE_DATA")
        parts = [await self.readable_bytes()]
        if folder:
            parts += await asyncio.to_thread(_files, Path(folder), f"{self._prefix}_{MODEL}*".lower())
        return b"\n".join(parts)

    async def unfiltered(
        self, tenant: TenantId, vector: np.ndarray, words: Sequence[str]
    ) -> tuple[dict[str, float], set[str]]:
        host, port = urlsplit(self._http).hostname, urlsplit(self._http).port
        client = use_async_with_custom(host, port, False, host, int(self._settings.grpc.rpartition(":")[2]), False)
        async with client:
            entries = client.collections.use(f"{self._prefix}_{MODEL}").with_tenant(tenant)
            near = await entries.query.near_vector(
                vector.tolist(), limit=1_000, return_metadata=MetadataQuery(distance=True)
            )
            worded = await entries.query.bm25(" ".join(words), query_properties=["terms"], limit=1_000)
        cosines = {str(found.properties["memory_id"]): 1 - found.metadata.distance for found in near.objects}
        return cosines, {str(found.properties["memory_id"]) for found in worded.objects}


def _files(folder: Path, pattern: str) -> list[bytes]:
    return [path.read_bytes() for place in folder.glob(pattern) for path in sorted(place.rglob("*")) if path.is_file()]


Backend = LocalBackend | WeaviateBackend
WEAVIATE = "weaviate" if REAL else "weaviate-standin"
BACKENDS: dict[str, Callable[[Path], Backend]] = {"local": LocalBackend, WEAVIATE: WeaviateBackend}


def backend_of(arguments: Sequence[str]) -> Backend:
    """The same one in another process."""
    kind, folder, *rest = arguments
    return LocalBackend(Path(folder)) if kind == "local" else WeaviateBackend(Path(folder), *rest)


@pytest.fixture(params=sorted(BACKENDS))
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Backend]:
    made = BACKENDS[request.param](tmp_path / "index")
    yield made
    await made.discard()


@pytest.fixture
async def index(backend: Backend) -> VectorIndex:
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
