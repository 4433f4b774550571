"""Where everything is sealed: whatever the backend, nothing reaches it but through here.

Callers speak plainly, of a user's words and vectors; backends see references, sealed terms and permuted vectors.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from memory.encoding import EncodedQuery, PackedTokens, Vector
from memory.ids import MemoryId, TenantId, UserRef
from memory.scope import Scope
from memory.seal import seal_packed, seal_term, seal_tokens, seal_vector
from storage.index.checks import MAX_ENTRY_TERMS, MAX_QUERY_TERMS
from storage.index.keyring import KeyRing
from storage.protocols import Hit, SealedEntry, SealedQuery, VectorIndex, WalkPage

__all__ = ["BlindIndex", "KeyRing", "PlainEntry"]


@dataclass(frozen=True, slots=True)
class PlainEntry:
    """An entry before it is sealed: `terms` by memory/terms.py (repeats count), `context_terms` of the turn before it."""

    id: MemoryId
    version: int
    vector: Vector
    terms: tuple[str, ...]
    context_terms: tuple[str, ...] = ()


def _sealed_terms(terms: Sequence[str], key: bytes) -> tuple[str, ...]:
    known = {term: seal_term(term, key) for term in set(terms)}
    return tuple(known[term] for term in terms)


class BlindIndex:
    """A user's own index. What seals or searches needs scope.user; the rest of `VectorIndex` is passed on. What writes asks the
    records for the key each time; what searches may use one that is a minute old.

    `cosine_floor` is the second wall: under one key cosines of an e5 model lie above .65, under another's within .2 of nothing, so
    that what a backend with a broken filter might return beneath the floor is dropped. It belongs to the model.
    """

    def __init__(self, backend: VectorIndex, keys: KeyRing, cosine_floor: float = 0.4) -> None:
        self._backend, self._keys, self._floor = backend, keys, cosine_floor

    async def upsert(self, scope: Scope, entries: Sequence[PlainEntry]) -> None:
        """Terms beyond the first 4,096 of an entry are not indexed."""
        if not entries:
            return
        user = await self._keys.open(scope, fresh=True)
        sealed = [
            SealedEntry(
                entry.id,
                user.ref,
                entry.version,
                seal_vector(entry.vector, user.key),
                _sealed_terms(entry.terms[:MAX_ENTRY_TERMS], user.key),
                _sealed_terms(entry.context_terms[:MAX_ENTRY_TERMS], user.key),
            )
            for entry in entries
        ]
        await self._backend.upsert(scope, sealed)

    async def search(
        self, scope: Scope, vector: Vector | None, terms: Sequence[str], vector_limit: int, keyword_limit: int
    ) -> list[Hit]:
        """The user's entries nearest to `vector`, and those with `terms` (the first 256 distinct ones count)."""
        user = await self._keys.open(scope)
        distinct = list(dict.fromkeys(terms))[:MAX_QUERY_TERMS]
        query = SealedQuery(
            user.ref, None if vector is None else seal_vector(vector, user.key), _sealed_terms(distinct, user.key)
        )
        hits = await self._backend.search(scope, query, vector_limit, keyword_limit)
        return [hit for hit in hits if hit.bm25 is not None or (hit.cosine is not None and hit.cosine >= self._floor)]

    async def seal_question(self, scope: Scope, question: EncodedQuery) -> EncodedQuery:
        """The question as it can be compared with the token vectors that lie beside the user's rows."""
        user = await self._keys.open(scope)
        return EncodedQuery(seal_vector(question.pooled, user.key), seal_tokens(question.tokens, user.key))

    async def seal_packed(self, scope: Scope, packed: PackedTokens) -> PackedTokens:
        """An entry's packed token vectors as they are kept beside its row."""
        user = await self._keys.open(scope, fresh=True)
        return seal_packed(packed, user.key)

    # --- passed on, because it needs no key -------------------------------------------------------------------------------

    async def check(self) -> None:
        await self._backend.check()

    async def ensure_tenant(self, scope: Scope) -> None:
        await self._backend.ensure_tenant(scope)

    async def remove(self, scope: Scope, ids: Sequence[MemoryId]) -> None:
        await self._backend.remove(scope, ids)

    async def remove_user(self, scope: Scope, ref: UserRef) -> int:
        return await self._backend.remove_user(scope, ref)

    async def versions(self, scope: Scope, ids: Sequence[MemoryId]) -> dict[MemoryId, int]:
        return await self._backend.versions(scope, ids)

    async def remaining(self, scope: Scope, ids: Sequence[MemoryId]) -> set[MemoryId]:
        return await self._backend.remaining(scope, ids)

    async def walk(self, scope: Scope, cursor: str | None, limit: int) -> WalkPage:
        return await self._backend.walk(scope, cursor, limit)

    async def count(self, scope: Scope, ref: UserRef | None) -> int:
        return await self._backend.count(scope, ref)

    async def tenants(self, scope: Scope) -> set[TenantId]:
        return await self._backend.tenants(scope)

    async def scrub(self, scope: Scope) -> None:
        """After an erasure: removed bytes are gone as far as the backend can see to it, and the key has left this process."""
        self._keys.forget(scope)
        await self._backend.scrub(scope)

    async def drop_tenant(self, scope: Scope) -> None:
        """The whole partition, whoever scope.user is."""
        self._keys.forget(Scope(scope.tenant_id))
        await self._backend.drop_tenant(scope)

    async def ping(self) -> None:
        await self._backend.ping()

    async def aclose(self) -> None:
        await self._backend.aclose()
