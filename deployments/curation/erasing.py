"""The Eraser: carries out the erasure of a user or a tenant in every store, and puts on record what each was found to hold (I3).

The order stands in SQL, and with it the fence. First every store is counted and the counts are kept; then everything is
removed; then, a grace longer than any deadline plus lease later, every store is asked again. Only when nothing more is found is the
receipt dated and the fence taken down; what a late writer left meanwhile is removed, and another grace begins. Every step may be
run again, by any worker, after a crash anywhere.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import Random

import structlog

from deployments.flows.erasing import SESSIONS
from deployments.services import Services
from deployments.settings import CuratorSettings
from deployments.telemetry.metrics import ERASURES
from memory.errors import DeadlineExceeded, StrataError
from memory.scope import Scope, system_scope
from storage.index.blind import BlindIndex
from storage.protocols import Erasure, StoreReport

log = structlog.get_logger(__name__)

AT_ONCE = 4
ROWS = 500
"""Rows of a tenant that go in one transaction."""
FIRST_RETRY_S = 0.5
LAST_RETRY_S = 60.0
GO_ON_S = 1.0
"""Between two removals of a store that holds more than one takes."""

ANSWERS = "claims of Idempotency-Keys deleted with the answers that they kept"
RECORDS = "content, history, names and token vectors deleted in one transaction; the key of the index destroyed"
INDEX = "removed by id and by reference from every version and copy; bytes kept until compaction are sealed under a key that is gone"
ROWS_GONE = "every row deleted in bounded steps, the users' keys first"
PARTITION_GONE = "the tenant's partition dropped from every version"


@dataclass(frozen=True, slots=True)
class Store:
    """One of the places that hold something: how much, and how it goes. `clear` answers how much it found."""

    name: str
    method: str
    count: Callable[[], Awaitable[int]]
    clear: Callable[[], Awaitable[int]]


class Eraser:
    """Any number may run: a claim is a lease in SQL."""

    def __init__(self, worker: str, services: Services, settings: CuratorSettings) -> None:
        self._worker, self._svc, self._settings = worker, services, settings
        self._records = services.records
        self._until = 0.0
        self._jitter = Random(worker)  # noqa: S311 - spreads retries, no secret

    async def step(self) -> bool:
        """One step of each erasure that is due. True where there was any: its next step may be due at once."""
        lease_s = self._settings.lease_s
        self._until = asyncio.get_running_loop().time() + lease_s
        due = await self._records.claim_erasures(system_scope(), self._worker, AT_ONCE, lease_s, self._svc.clock())
        for erasure in due:
            try:
                await self._in_time(erasure)
            except StrataError as error:
                log.warning("erasure_put_off", kind=error.slug)
                await self._records.fail_erasure(
                    _system(erasure), erasure, self._worker, self._retry_at(erasure.attempts)
                )
        return bool(due)

    async def _in_time(self, erasure: Erasure) -> None:
        try:
            async with asyncio.timeout_at(self._until) as waiting:
                await (self._look(erasure) if erasure.phase == "erase" else self._clear(erasure))
        except TimeoutError:
            if waiting.expired():
                raise DeadlineExceeded("The erasure") from None
            raise

    def _retry_at(self, attempts: int) -> datetime:
        delay = min(LAST_RETRY_S, FIRST_RETRY_S * 2 ** min(attempts, 10))
        return self._svc.clock() + timedelta(seconds=delay * (0.5 + self._jitter.random()))

    async def _look(self, erasure: Erasure) -> None:
        """Before anything goes, what is there is put on record: a crash in the middle must not make it look like less."""
        reports: dict[str, StoreReport] = {}
        for store in self._stores(erasure):
            known = erasure.stores.get(store.name)
            before = max(await store.count(), known.before if known is not None else 0)
            reports[store.name] = StoreReport(before, None, store.method)
        await self._advance(erasure, reports, self._svc.clock())

    async def _clear(self, erasure: Erasure) -> None:
        stores = self._stores(erasure)
        first = any(store.name not in erasure.stores or erasure.stores[store.name].after != 0 for store in stores)
        reports: dict[str, StoreReport] = {}
        found = left = 0
        for store in stores:
            if (
                asyncio.get_running_loop().time() >= self._until
            ):  # stopped for a while: it may all be over, and the id in use again
                raise DeadlineExceeded("The erasure")
            cleared = await store.clear()
            after = await store.count()
            known = erasure.stores.get(store.name, StoreReport(0, None, store.method))
            late = 0 if first else cleared  # the first time it is what was counted before
            reports[store.name] = replace(known, before=known.before + late, after=after, at=self._svc.clock())
            found += cleared
            left += after
        now = self._svc.clock()
        if left:
            log.warning("erasure_goes_on", left=left)
            await self._advance(erasure, reports, now + timedelta(seconds=GO_ON_S))
        elif first or found:
            await self._advance(erasure, reports, now + timedelta(seconds=self._settings.grace_s))
        elif await self._advance(erasure, reports, None):
            await self._lift(erasure)
            ERASURES.labels("user" if erasure.scope.user_id is not None else "tenant").inc()

    async def _advance(self, erasure: Erasure, reports: Mapping[str, StoreReport], verify_at: datetime | None) -> bool:
        stores = {**erasure.stores, **reports}
        return await self._records.advance_erasure(_system(erasure), erasure, self._worker, stores, verify_at)

    async def _lift(self, erasure: Erasure) -> None:
        """The id may begin anew at once. Where this fails, the sessions' fence ends by itself a little later."""
        try:
            await self._svc.sessions.lift_fence(_system(erasure))
        except StrataError as error:
            log.warning("fence_left_to_expire", kind=error.slug)

    # --- the stores ---------------------------------------------------------------------------------------------------

    def _stores(self, erasure: Erasure) -> Sequence[Store]:
        """In the order in which they are cleared: first those that could still feed the others."""
        scope = _system(erasure)
        return self._of_tenant(scope) if scope.user_id is None else self._of_user(scope, erasure)

    def _of_user(self, scope: Scope, erasure: Erasure) -> Sequence[Store]:
        svc = self._svc

        async def index_count() -> int:
            return sum([await index.count(scope, ref) for index in self._indexes() for ref in erasure.refs])

        async def index_clear() -> int:
            found = 0
            for index in self._indexes():
                found += sum([await index.remove_user(scope, ref) for ref in erasure.refs])
                await index.scrub(scope)
            return found

        return (
            Store(
                "sessions",
                SESSIONS,
                lambda: svc.sessions.count_user(scope),
                lambda: svc.sessions.forget_user(scope, self._fence_s()),
            ),
            Store(
                "idempotency",
                ANSWERS,
                lambda: svc.idempotency.count_user(scope),
                lambda: svc.idempotency.forget_user(scope),
            ),
            Store("records", RECORDS, lambda: self._records.count_rows(scope), _nothing),
            Store("index", INDEX, index_count, index_clear),
        )

    def _of_tenant(self, scope: Scope) -> Sequence[Store]:
        svc = self._svc

        async def rows_clear() -> int:
            gone, until = 0, asyncio.get_running_loop().time() + self._settings.lease_s / 2
            while asyncio.get_running_loop().time() < until:
                step = await self._records.erase_rows(scope, ROWS)
                if step == 0:
                    break
                gone += step
            return gone

        async def index_count() -> int:
            return sum([await index.count(scope, None) for index in self._indexes()])

        async def index_clear() -> int:
            found = await index_count()
            for index in self._indexes():
                await index.drop_tenant(scope)
            return found

        return (
            Store(
                "sessions",
                SESSIONS,
                lambda: svc.sessions.count_tenant(scope),
                lambda: svc.sessions.forget_tenant(scope, self._fence_s()),
            ),
            Store("records", ROWS_GONE, lambda: self._records.count_rows(scope), rows_clear),
            Store("index", PARTITION_GONE, index_count, index_clear),
        )

    def _indexes(self) -> tuple[BlindIndex, ...]:
        return (self._svc.index, *self._svc.others())

    def _fence_s(self) -> float:
        """Until well after the next look, which raises it again or takes it down."""
        return self._settings.grace_s + 2 * self._settings.lease_s


async def _nothing() -> int:
    """Went already with the transaction that put up the fence."""
    return 0


def _system(erasure: Erasure) -> Scope:
    return system_scope(erasure.scope.tenant_id, erasure.scope.user_id)
