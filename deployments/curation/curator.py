"""The Curator: keeps the indexes equal to SQL. Level-triggered: it applies each entry's current state, whatever happened before.

One pass claims what is due, applies it and finishes only what did not change meanwhile. A delete is verified after a grace
longer than any deadline plus lease, so that a stalled worker's late write is found and removed (P26). An embedder that is
away costs nothing but time: the work stays, and is done when it is back (P37).

What is new goes to the active index; deletions go to every version that is still there.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from random import Random

import structlog

from deployments.curation.loop import all_of
from deployments.services import Services
from deployments.settings import CuratorSettings
from memory.encoding import Passage
from memory.entry import Memory
from memory.errors import DeadlineExceeded, NotFound, Overloaded, StrataError, Unavailable
from memory.ids import TenantId
from memory.left_context import context_text
from memory.scope import Scope, system_scope
from memory.terms import terms
from memory.ticket import Ticket
from memory.turns import Turn
from storage.index.blind import PlainEntry
from storage.protocols import DirtyItem

log = structlog.get_logger(__name__)

EMBED_TIMEOUT_S = 10.0
FIRST_RETRY_S = 0.5
LAST_RETRY_S = 60.0
AWAY = (Unavailable, DeadlineExceeded, Overloaded)
"""Errors that speak of a part of Strata rather than of an entry, though an entry may be what brings them about."""

Work = Callable[[Sequence[DirtyItem]], Awaitable[None]]


class Curator:
    """One worker. Any number may run: a claim is a lease in SQL."""

    def __init__(self, worker: str, services: Services, settings: CuratorSettings) -> None:
        self._worker, self._svc, self._settings = worker, services, settings
        self._records = services.records
        self._scrubbed: dict[TenantId, datetime] = {}
        self._until = 0.0
        self._jitter = Random(worker)  # noqa: S311 - spreads retries, no secret

    async def step(self) -> bool:
        """One pass. True where there was a full batch, so that more may wait."""
        if self._svc.retired():
            return False  # the replicas of the model that answers by now do it
        settings = self._settings
        self._until = asyncio.get_running_loop().time() + settings.lease_s
        items = await self._records.claim_dirty(
            system_scope(), self._worker, settings.batch, settings.lease_s, self._svc.clock()
        )
        by_tenant: dict[str, list[DirtyItem]] = defaultdict(list)
        for item in items:
            by_tenant[item.scope.tenant_id].append(item)
        await all_of(self._tenant(batch) for batch in by_tenant.values())
        return len(items) == settings.batch

    async def _tenant(self, items: Sequence[DirtyItem]) -> None:
        """One tenant's share; a failure puts off that share alone. What failed before is tried apart from what did not."""
        groups: list[tuple[Work, list[DirtyItem]]] = []
        for work, kind in (
            (self._apply, [item for item in items if item.memory is not None]),
            (self._remove, [item for item in items if item.memory is None]),
        ):
            groups.append((work, [item for item in kind if item.attempts == 0]))
            groups.append((work, [item for item in kind if item.attempts > 0]))
        await all_of(self._settle(work, group) for work, group in groups if group)

    async def _settle(self, work: Work, items: Sequence[DirtyItem], again: bool = True) -> None:
        """`work` on all of them at once. Where that fails, a poisonous entry must not put off the others for ever (P12, P39): each is
        tried alone; or, where a part seems to be away and every try would ask it again, in two halves drawn anew each time."""
        try:
            await self._in_time(work, items)
            return
        except StrataError as error:
            failure = error
        if len(items) == 1 or not again:
            await self._put_off(items, failure)
            return
        if isinstance(failure, AWAY):
            mixed = self._jitter.sample(items, len(items))
            parts = [mixed[: len(mixed) // 2], mixed[len(mixed) // 2 :]]
        else:
            parts = [[item] for item in items]
        for part in parts:
            await self._settle(work, part, again=False)

    async def _in_time(self, work: Work, items: Sequence[DirtyItem]) -> None:
        """Within the lease: what a worker wrote later than that, no verification would find."""
        try:
            async with asyncio.timeout_at(self._until) as waiting:
                await work(items)
        except TimeoutError:
            if waiting.expired():
                raise DeadlineExceeded("The curator's work") from None
            raise

    def _still_held(self) -> None:
        """A process that was stopped for a while goes on with what it was about to do before it hears of any time-out."""
        if asyncio.get_running_loop().time() >= self._until:
            raise DeadlineExceeded("The curator's work")

    async def _put_off(self, items: Sequence[DirtyItem], failure: StrataError) -> None:
        log.warning("curator_items_put_off", kind=failure.slug, items=len(items))
        for item in items:
            await self._records.fail_dirty(system_scope(), item, self._worker, self._retry_at(item.attempts))

    def _retry_at(self, attempts: int) -> datetime:
        delay = min(LAST_RETRY_S, FIRST_RETRY_S * 2 ** min(attempts, 10))
        return self._svc.clock() + timedelta(seconds=delay * (0.5 + self._jitter.random()))

    # --- what lives ---------------------------------------------------------------------------------------------------

    async def _apply(self, items: Sequence[DirtyItem]) -> None:
        live = [(item, item.memory) for item in items if item.memory is not None]
        embedder = self._svc.embedder
        card = await embedder.card()
        contexts = [await self._context(item.scope, memory) for item, memory in live]
        keep_tokens = [item.token_model == card.key for item, _ in live]
        passages = [
            Passage(memory.content, "" if keep else context_text(turns))
            for (_, memory), turns, keep in zip(live, contexts, keep_tokens, strict=True)
        ]
        ticket = Ticket(live[0][0].scope.tenant_id, EMBED_TIMEOUT_S)
        encoded = await embedder.passages(ticket, passages)
        entries: dict[Scope, list[PlainEntry]] = defaultdict(list)
        for (item, memory), turns, keep, passage in zip(live, contexts, keep_tokens, encoded, strict=True):
            if not keep:
                sealed = await self._svc.index.seal_packed(item.scope, passage.tokens)
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
            self._still_held()
            await self._upsert(scope, of_user)
        for item, _ in live:
            await self._records.finish_dirty(system_scope(), item, self._worker, None)

    async def _upsert(self, scope: Scope, entries: Sequence[PlainEntry]) -> None:
        """A partition that is not there is made for a tenant that lives, and for no other: a late write must not bring one back. The
        work of a tenant that is gone, or is going, is dropped."""
        index = self._svc.index
        try:
            await index.upsert(scope, entries)
            return
        except NotFound as error:
            if error.what != "partition":
                raise
        try:
            tenant = await self._svc.tenants.tenant(system_scope(), scope.tenant_id)
        except NotFound:
            return
        if tenant.erasing:
            return
        await index.ensure_tenant(system_scope(scope.tenant_id))
        await index.upsert(scope, entries)

    async def _context(self, scope: Scope, memory: Memory) -> tuple[Turn, ...]:
        """The turns that the entry is encoded with, those that are still kept. An expired session gives none."""
        if memory.session_id is None or not memory.context_turn_ids:
            return ()
        try:
            return await self._svc.sessions.peek(scope.narrowed(session_id=memory.session_id), memory.context_turn_ids)
        except NotFound:
            return ()

    # --- what is gone -------------------------------------------------------------------------------------------------

    async def _remove(self, items: Sequence[DirtyItem]) -> None:
        """First removed from every index, and, after the grace, looked for in every copy. What is found then starts again."""
        scope = system_scope(items[0].scope.tenant_id)
        verifying = [item.memory_id for item in items if item.phase == "verify"]
        found: set[str] = set()
        for index in (self._svc.index, *self._svc.others()):
            left = await index.remaining(scope, verifying)
            doomed = [item.memory_id for item in items if item.phase == "apply" or item.memory_id in left]
            await index.remove(scope, doomed)
            found |= left
        if set(verifying) - found:
            await self._scrub(scope)
        again = self._svc.clock() + timedelta(seconds=self._settings.grace_s)
        for item in items:
            verified = item.phase == "verify" and item.memory_id not in found
            await self._records.finish_dirty(system_scope(), item, self._worker, None if verified else again)

    async def _scrub(self, scope: Scope) -> None:
        """A deletion counts as verified when its bytes are out of the index's own files and log. What is verified now was removed a
        grace ago at least, so that one scrub serves all that is verified within a grace."""
        now, grace = self._svc.clock(), timedelta(seconds=self._settings.grace_s)
        self._scrubbed = {tenant: at for tenant, at in self._scrubbed.items() if now - at < grace}
        if scope.tenant_id in self._scrubbed:
            return
        for index in (self._svc.index, *self._svc.others()):
            await index.scrub(scope)
        self._scrubbed[scope.tenant_id] = now
