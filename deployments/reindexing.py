"""Embedding every entry anew with another model while Strata goes on answering with the one it has (design: embedding versions).

A version `building` is filled tenant by tenant in the order of ids, and its row says how far that has come: whoever is killed goes
on there. Then both sides are compared, and what changed meanwhile is done again, until nothing differs: `ready`. From its first
row on every deletion reaches the new index too; what a deletion overtook here, the comparison removes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from deployments.inference_client import EmbeddingModel
from deployments.versions import check_details, details_of
from memory.encoding import ModelCard, Passage
from memory.entry import Memory
from memory.errors import ConfigError, Conflict, DeadlineExceeded, NotFound, Overloaded, Unavailable
from memory.ids import MemoryId, TenantId
from memory.left_context import context_text
from memory.scope import Scope, system_scope
from memory.terms import terms
from memory.ticket import Ticket
from memory.turns import Turn
from storage.index.blind import BlindIndex, PlainEntry
from storage.protocols import (
    IndexVersion,
    Records,
    SessionStore,
    SweptRow,
    TenantStore,
    VersionState,
    VersionStore,
)

BATCH = 64
PASSES = 5
"""Comparisons at most: under writes that never end some entry always differs, and a start with the model brings it along."""
EMBED_TIMEOUT_S = 300.0
ATTEMPTS = 6

Watch = Callable[[str, int, int], None]
"""(stage, entries done, entries in all)."""


def unwatched(stage: str, done: int, total: int) -> None:
    """For whoever does not look."""


@dataclass(frozen=True, slots=True)
class Done:
    """What a reindex did. `already`: the version is the active one, there was nothing to do."""

    model_key: str
    written: int = 0
    removed: int = 0
    differing: int = 0
    """Entries that had changed again when the last comparison looked."""
    already: bool = False


@dataclass(slots=True)
class Reindexer:
    """One run. `index` is the new version's, `embedder` has its model."""

    versions: VersionStore
    records: Records
    tenants: TenantStore
    sessions: SessionStore
    index: BlindIndex
    embedder: EmbeddingModel
    watch: Watch = unwatched
    batch: int = BATCH

    _written: int = 0
    _removed: int = 0

    async def run(self) -> Done:
        """ConfigError where the version's row is of another model; the stores' errors where one stays away: then it goes on when
        it is run again."""
        card = await self.embedder.card()
        version = await self._begin(card)
        if version.state is VersionState.ACTIVE:
            return Done(card.key, already=True)
        await self._fill(version, card)
        differing = 0
        for _ in range(PASSES):
            differing = await self._compare(card)
            if not differing:
                break
        await self._put(replace(version, state=VersionState.READY, at=None))
        return Done(card.key, self._written, self._removed, differing)

    # --- the version's row --------------------------------------------------------------------------------------------

    async def _found(self, model_key: str) -> IndexVersion | None:
        listed = await self.versions.versions(system_scope())
        return next((version for version in listed if version.model_key == model_key), None)

    async def _begin(self, card: ModelCard) -> IndexVersion:
        """Its row is there before its first entry: from then on deletions look into its index as well."""
        found = await self._found(card.key)
        if found is None:
            found = IndexVersion(card.key, card.dimension, VersionState.BUILDING, details_of(card))
        elif found.state is VersionState.ACTIVE:
            return found
        check_details(found, card)
        if found.state is not VersionState.BUILDING:  # one that was whole once needs only the comparison
            found = replace(found, state=VersionState.BUILDING, at=_END)
        await self.versions.put(system_scope(), found)
        return found

    async def _put(self, version: IndexVersion) -> None:
        """Unless somebody else has finished it, or dropped it, meanwhile."""
        found = await self._found(version.model_key)
        if found is None or found.state is not VersionState.BUILDING:
            raise Conflict("The version is not being built any more: another reindex has finished or dropped it.")
        await self.versions.put(system_scope(), replace(version, created_at=found.created_at))

    async def _living(self) -> list[TenantId]:
        return sorted(tenant.id for tenant in await self.tenants.tenants(system_scope()) if not tenant.erasing)

    # --- filling ------------------------------------------------------------------------------------------------------

    async def _fill(self, version: IndexVersion, card: ModelCard) -> None:
        tenants = await self._living()
        reached = version.at
        todo = [tenant for tenant in tenants if reached is None or tenant >= reached[0]]
        total = 0
        for tenant in todo:
            total += await self._count(tenant, reached[1] if reached and tenant == reached[0] else None)
        done = 0
        self.watch("embedding", 0, total)
        for tenant in todo:
            scope = system_scope(tenant)
            await self.index.ensure_tenant(scope)
            after = reached[1] if reached and tenant == reached[0] else None
            while rows := await self.records.rows_after(scope, after, self.batch):
                await self._write(scope, card, rows)
                after = rows[-1].id
                await self._put(replace(version, at=(tenant, after)))
                done += len(rows)
                self.watch("embedding", done, max(done, total))

    async def _count(self, tenant: TenantId, after: MemoryId | None) -> int:
        count = 0
        while rows := await self.records.rows_after(system_scope(tenant), after, 1000):
            count, after = count + len(rows), rows[-1].id
        return count

    async def _write(self, scope: Scope, card: ModelCard, rows: Sequence[SweptRow]) -> None:
        """Those that live: token vectors beside the row first, then the index. Short outages are waited out."""
        away = retry_if_exception_type((Unavailable, DeadlineExceeded, Overloaded))
        wait = wait_random_exponential(multiplier=0.2, max=10)
        async for attempt in AsyncRetrying(retry=away, wait=wait, stop=stop_after_attempt(ATTEMPTS), reraise=True):
            with attempt:
                await self._write_once(scope, card, [row for row in rows if row.live])

    async def _write_once(self, scope: Scope, card: ModelCard, rows: Sequence[SweptRow]) -> None:
        entries: list[tuple[Scope, Memory, tuple[Turn, ...]]] = []
        for row in rows:
            user = system_scope(scope.tenant_id, row.user_id)
            try:
                memory = await self.records.get(user, row.id)
            except NotFound:  # deleted meanwhile
                continue
            entries.append((user, memory, await self._context(user, memory)))
        if not entries:
            return
        passages = [Passage(memory.content, context_text(turns)) for _, memory, turns in entries]
        encoded = await self.embedder.passages(Ticket(scope.tenant_id, EMBED_TIMEOUT_S), passages)
        by_user: dict[Scope, list[PlainEntry]] = {}
        for (user, memory, turns), passage in zip(entries, encoded, strict=True):
            try:
                sealed = await self.index.seal_packed(user, passage.tokens)
            except (Conflict, NotFound):  # he is being erased
                continue
            if not await self.records.store_tokens(user, memory.id, card.key, memory.version, sealed):
                continue  # changed meanwhile: the comparison finds it
            before = tuple(terms(turns[-1].content)) if turns else ()
            entry = PlainEntry(memory.id, memory.version, passage.pooled, tuple(terms(memory.content)), before)
            by_user.setdefault(user, []).append(entry)
        for user, of_user in by_user.items():
            try:
                await self.index.upsert(user, of_user)
            except (Conflict, NotFound):  # he, or his tenant, is being erased
                continue
            self._written += len(of_user)

    async def _context(self, scope: Scope, memory: Memory) -> tuple[Turn, ...]:
        """The turns that the entry was encoded with, those that are still kept: none of an expired session."""
        if memory.session_id is None or not memory.context_turn_ids:
            return ()
        try:
            session = scope.narrowed(session_id=memory.session_id)
            return await self.sessions.peek(session, memory.context_turn_ids)
        except NotFound:
            return ()

    # --- comparing ----------------------------------------------------------------------------------------------------

    async def _compare(self, card: ModelCard) -> int:
        """Both ways; what differs is done again or removed. Returns how many entries differed."""
        tenants = await self._living()
        differing = 0
        for number, tenant in enumerate(tenants):
            self.watch("comparing", number, len(tenants))
            differing += await self._missing(system_scope(tenant), card)
            differing += await self._left_over(system_scope(tenant))
        self.watch("comparing", len(tenants), len(tenants))
        known = {tenant.id for tenant in await self.tenants.tenants(system_scope())}
        for gone in await self.index.tenants(system_scope()) - known:
            await self.index.drop_tenant(system_scope(gone))
        return differing

    async def _missing(self, scope: Scope, card: ModelCard) -> int:
        await self.index.ensure_tenant(scope)
        differing, after = 0, None
        while rows := await self.records.rows_after(scope, after, self.batch * 4):
            after = rows[-1].id
            held = await self.index.versions(scope, [row.id for row in rows])
            lacking = [row for row in rows if row.live and held.get(row.id) != row.version]
            ahead = [row.id for row in lacking if held.get(row.id, 0) > row.version]
            if ahead:  # the records come from a backup: an index keeps the later version
                await self.index.remove(scope, ahead)
            for start in range(0, len(lacking), self.batch):
                await self._write(scope, card, lacking[start : start + self.batch])
            differing += len(lacking)
        return differing

    async def _left_over(self, scope: Scope) -> int:
        found, cursor = 0, None
        while True:
            page = await self.index.walk(scope, cursor, self.batch * 4)
            ids = [memory_id for memory_id, _ in page.entries]
            living = {row.id for row in await self.records.rows_of(scope, ids) if row.live}
            dead = [memory_id for memory_id in ids if memory_id not in living]
            if dead:
                await self.index.remove(scope, dead)
                found += len(dead)
            cursor = page.next_cursor
            if cursor is None:
                self._removed += found
                return found


_END = (TenantId("~"), MemoryId("~"))
"""After every tenant: `~` is the last of the printable characters and in no id."""


async def drop(versions: VersionStore, index: BlindIndex, model_key: str) -> int:
    """The index of one version with all that is in it, its token vectors, and last its row: a drop that was cut off is done by
    dropping again. Returns how many token vectors went. ConfigError for the active one, NotFound("index version")."""
    listed = {version.model_key: version for version in await versions.versions(system_scope())}
    if model_key not in listed:
        raise NotFound("index version")
    if listed[model_key].state is VersionState.ACTIVE:
        raise ConfigError(model_key, "is what Strata answers from; reindex to another model and start with it first")
    for tenant in sorted(await index.tenants(system_scope())):
        await index.drop_tenant(system_scope(tenant))
    return await versions.drop(system_scope(), model_key)
