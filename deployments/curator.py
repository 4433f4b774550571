"""The Curator: keeps the index equal to SQL. Level-triggered: it applies each entry's current state, whatever happened before.

One pass claims what is due, applies it and finishes only what did not change meanwhile. A delete is verified after a grace
longer than any deadline plus lease, so that a stalled worker's late write is found and removed (P26). An embedder that is
away costs nothing but time: the work stays, and is done when it is back (P37).
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random

import structlog

from deployments.inference_client import EmbeddingModel
from deployments.services import Clock
from deployments.settings import CuratorSettings
from memory.encoding import Passage
from memory.entry import Memory
from memory.errors import NotFound, StrataError
from memory.left_context import context_text
from memory.scope import Scope, system_scope
from memory.terms import terms
from memory.ticket import Ticket
from memory.turns import Turn
from storage.index.blind import BlindIndex, PlainEntry
from storage.protocols import DirtyItem, RecordStore, SessionStore

log = structlog.get_logger(__name__)

EMBED_TIMEOUT_S = 10.0
FIRST_RETRY_S = 0.5
LAST_RETRY_S = 60.0


class Curator:
    """One worker. Any number may run: a claim is a lease in SQL."""

    def __init__(
        self,
        worker: str,
        records: RecordStore,
        sessions: SessionStore,
        index: BlindIndex,
        embedder: EmbeddingModel,
        settings: CuratorSettings,
        clock: Clock,
    ) -> None:
        self._worker = worker
        self._records, self._sessions, self._index, self._embedder = records, sessions, index, embedder
        self._settings, self._clock = settings, clock
        self._wake = asyncio.Event()
        self._jitter = Random(worker)  # noqa: S311 - spreads retries, no secret

    def wake(self) -> None:
        """There is work: do not wait for the next poll."""
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled. A failing pass is logged by its kind alone and tried again."""
        while True:
            self._wake.clear()
            try:
                busy = await self.step()
            except StrataError as error:
                log.warning("curator_pass_failed", kind=error.slug)
                busy = False
            if not busy:
                await self._rest()

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(self._settings.poll_s * (0.75 + self._jitter.random() / 2)):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def step(self) -> bool:
        """One pass. True where there was a full batch, so that more may wait."""
        system = system_scope()
        items = await self._records.claim_dirty(
            system, self._worker, self._settings.batch, self._settings.lease_s, self._clock()
        )
        by_tenant: dict[str, list[DirtyItem]] = defaultdict(list)
        for item in items:
            by_tenant[item.scope.tenant_id].append(item)
        await asyncio.gather(*(self._tenant(batch) for batch in by_tenant.values()))
        return len(items) == self._settings.batch

    async def _tenant(self, items: Sequence[DirtyItem]) -> None:
        """One tenant's share; a failure puts off that share alone."""
        live = [(item, item.memory) for item in items if item.memory is not None]
        try:
            await asyncio.gather(self._apply(live), self._remove([item for item in items if item.memory is None]))
        except StrataError as error:
            log.warning("curator_items_put_off", kind=error.slug, items=len(items))
            for item in items:
                await self._records.fail_dirty(system_scope(), item, self._worker, self._retry_at(item.attempts))

    def _retry_at(self, attempts: int) -> datetime:
        delay = min(LAST_RETRY_S, FIRST_RETRY_S * 2 ** min(attempts, 10))
        return self._clock() + timedelta(seconds=delay * (0.5 + self._jitter.random()))

    async def _apply(self, live: Sequence[tuple[DirtyItem, Memory]]) -> None:
        if not live:
            return
        card = await self._embedder.card()
        contexts = [await self._context(item.scope, memory) for item, memory in live]
        keep_tokens = [item.token_model == card.key for item, _ in live]
        passages = [
            Passage(memory.content, "" if keep else context_text(turns))
            for (_, memory), turns, keep in zip(live, contexts, keep_tokens, strict=True)
        ]
        ticket = Ticket(live[0][0].scope.tenant_id, EMBED_TIMEOUT_S)
        encoded = await self._embedder.passages(ticket, passages)
        entries: dict[Scope, list[PlainEntry]] = defaultdict(list)
        for (item, memory), turns, keep, passage in zip(live, contexts, keep_tokens, encoded, strict=True):
            if not keep:
                sealed = await self._index.seal_packed(item.scope, passage.tokens)
                await self._records.store_tokens(
                    system_scope(item.scope.tenant_id, item.scope.user_id), memory.id, card.key, memory.version, sealed
                )
            entry = PlainEntry(
                memory.id,
                memory.version,
                passage.pooled,
                tuple(terms(memory.content)),
                tuple(terms(turns[-1].content)) if turns else (),
            )
            entries[item.scope].append(entry)
        for scope, of_user in entries.items():
            await self._index.upsert(scope, of_user)
        for item, _ in live:
            await self._records.finish_dirty(system_scope(), item, self._worker, None)

    async def _context(self, scope: Scope, memory: Memory) -> tuple[Turn, ...]:
        """The turns that the entry is encoded with, those that are still kept. An expired session gives none."""
        if memory.session_id is None or not memory.context_turn_ids:
            return ()
        try:
            return await self._sessions.peek(scope.narrowed(session_id=memory.session_id), memory.context_turn_ids)
        except NotFound:
            return ()

    async def _remove(self, gone: Sequence[DirtyItem]) -> None:
        for item in gone:
            present = await self._index.present(item.scope, [item.memory_id])
            if present:
                await self._index.remove(item.scope, [item.memory_id])
            verified = item.phase == "verify" and not present
            verify_at = None if verified else self._clock() + timedelta(seconds=self._settings.grace_s)
            await self._records.finish_dirty(system_scope(), item, self._worker, verify_at)
