"""The index: insert, hybrid search in a user of 1,000 and of 10,000 entries, sealed and not, delete; and how search grows with the
number of tenants. Floor of a search: the exact scan of that user's vectors with numpy, ten best."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from benchmarks.phrases import memories, questions
from benchmarks.stores.measuring import Figure, median_ms
from memory.ids import MemoryId, TenantId, UserId, UserRef
from memory.scope import Scope
from memory.seal import seal_term
from memory.terms import terms
from storage.index.blind import BlindIndex, PlainEntry
from storage.index.keyring import KeyRing
from storage.keys import MasterKey
from storage.protocols import SealedEntry, SealedQuery, UserKey, VectorIndex

DIMENSION = 384
ARM = 50  # candidates of each arm, as a context call asks for
BATCH = 200
_PLAIN_KEY = bytes(32)


def sample_vectors(count: int, seed: int) -> np.ndarray:
    """float32 [count, 384], unit length, in one cone as an e5 model makes them (cosines about .8)."""
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((count, DIMENSION)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors += 2 * np.full(DIMENSION, DIMENSION**-0.5, dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


@dataclass
class KeysInMemory:
    """Users' keys without records: what is measured here is the index."""

    kept: dict[tuple[str, str], UserKey] = field(default_factory=dict)

    async def user_key(self, scope: Scope, make: Callable[[], UserKey]) -> UserKey:
        return self.kept.setdefault((scope.tenant_id, scope.user), make())


def _words(text: str) -> tuple[str, ...]:
    """Terms in a shape that an index takes, under one key for all: what an index without sealing would hold."""
    return tuple(seal_term(term, _PLAIN_KEY) for term in terms(text))


async def exact_scan_ms(entries: int, times: int) -> float:
    matrix = sample_vectors(entries, 1)
    asked = sample_vectors(64, 2)

    async def scan(number: int) -> None:
        cosines = matrix @ asked[number % 64]
        np.argpartition(-cosines, 10)[:10]

    return await median_ms(scan, times)


async def measure(backend: str, index: VectorIndex, times: int, sizes: tuple[int, ...]) -> list[Figure]:
    figures = []
    blind = BlindIndex(index, KeyRing(KeysInMemory(), MasterKey(secrets.token_bytes(32))))
    asked, asked_words = sample_vectors(64, 3), questions(64)
    for entries in sizes:
        vectors, texts = sample_vectors(entries, entries), memories(entries)
        sealed = Scope(TenantId(f"bench-s{entries}-{secrets.token_hex(4)}"), UserId("alice"))
        open_ = Scope(TenantId(f"bench-o{entries}-{secrets.token_hex(4)}"), UserId("alice"))
        for scope in (sealed, open_):
            await index.ensure_tenant(scope)
        for start in range(0, entries, BATCH):
            part = range(start, min(entries, start + BATCH))
            await blind.upsert(
                sealed, [PlainEntry(MemoryId(f"m{n}"), 1, vectors[n], tuple(terms(texts[n]))) for n in part]
            )
            await index.upsert(
                open_, [SealedEntry(MemoryId(f"m{n}"), UserRef("u_1"), 1, vectors[n], _words(texts[n])) for n in part]
            )
        floor = await exact_scan_ms(entries, times)

        async def search_sealed(number: int, scope: Scope = sealed) -> None:
            place = number % 64
            await blind.search(scope, asked[place], terms(asked_words[place]), ARM, ARM)

        async def search_open(number: int, scope: Scope = open_) -> None:
            place = number % 64
            query = SealedQuery(UserRef("u_1"), asked[place], tuple(dict.fromkeys(_words(asked_words[place]))))
            await index.search(scope, query, ARM, ARM)

        name = f"exact numpy scan of {entries:,}"
        for kind, search in (("sealed", search_sealed), ("not sealed", search_open)):
            figures.append(
                Figure(backend, f"hybrid search in {entries:,}, {kind}", await median_ms(search, times), floor, name)
            )
        figures += await _changes(backend, blind, sealed, entries, times)
        for scope in (sealed, open_):
            await index.drop_tenant(scope)
    return figures


async def _changes(backend: str, blind: BlindIndex, scope: Scope, entries: int, times: int) -> list[Figure]:
    fresh = sample_vectors(2 * times, 5)
    words = tuple(terms("用户打算周五和老同学一起去湖边。"))

    async def add(number: int) -> None:
        await blind.upsert(scope, [PlainEntry(MemoryId(f"x{number}"), 1, fresh[number], words)])

    async def remove(number: int) -> None:
        await blind.remove(scope, [MemoryId(f"x{number}")])

    added = await median_ms(add, times)
    removed = await median_ms(remove, times)
    return [
        Figure(backend, f"insert one beside {entries:,}", added),
        Figure(backend, f"delete one of {entries:,}", removed),
    ]


async def growth(backend: str, index: VectorIndex, times: int, tenants: int, each: int = 100) -> list[Figure]:
    """Search in one tenant among 1, and in changing ones among `tenants`, of `each` entries: flat is the goal (at most 1.3)."""
    run = secrets.token_hex(4)
    vectors, texts, asked = sample_vectors(each, 11), memories(each), sample_vectors(64, 12)
    words = [tuple(dict.fromkeys(_words(text))) for text in questions(64)]
    entries = [SealedEntry(MemoryId(f"m{n}"), UserRef("u_1"), 1, vectors[n], _words(texts[n])) for n in range(each)]
    scopes = [Scope(TenantId(f"grow-{run}-{number}"), UserId("alice")) for number in range(tenants)]

    async def fill(some: list[Scope]) -> None:
        for scope in some:
            await index.ensure_tenant(scope)
            await index.upsert(scope, entries)

    async def search(number: int, among: int) -> None:
        # among the tenants in a fixed scatter, so that no cache holds the next one for having seen the last
        scope = scopes[(number * 7919) % among]
        await index.search(scope, SealedQuery(UserRef("u_1"), asked[number % 64], words[number % 64]), ARM, ARM)

    await fill(scopes[:1])
    alone = await median_ms(lambda number: search(number, 1), times)
    await fill(scopes[1:])
    spread = await median_ms(lambda number: search(number, tenants), times)
    for scope in scopes:
        await index.drop_tenant(scope)
    return [
        Figure(backend, f"hybrid search, 1 tenant of {each}", alone),
        Figure(backend, f"hybrid search, {tenants:,} tenants of {each}", spread, alone, "one tenant"),
    ]
