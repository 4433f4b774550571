"""The SQL side of erasing a user or a tenant (I3): the fence, the order that workers carry out, the receipt.

Every step may be run again, by anybody: what is done already is found done.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Literal, cast

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, func, insert, or_, select, true, update

from memory.errors import Conflict, NotFound
from memory.ids import MemoryId, TenantId, UserId, UserRef, time_ordered_id
from memory.scope import NO_TENANT, Grant, Scope, system_scope
from storage.protocols import AuditEvent, Erasure, Receipt, StoreReport
from storage.records.audit import append_audit
from storage.records.base import OnDatabase, owned, owner, user_row
from storage.records.counting import saying_rows
from storage.records.deletion import bury
from storage.records.receipts import RECEIPTS, UNINDEXED, from_reports, to_receipt, to_reports
from storage.records.rows import live
from storage.records.schema import erasures, memories, placements, receipts, tenant_keys, tenants, users

_USERS_A_STEP = 500
_ENTRIES_A_STEP = 2000
_SOON = timedelta(seconds=2)
_RECORDS, _KEYS = "records", "keys"
"""What the receipt calls what is kept here; every other name is its worker's."""
_INDEX = "index"
"""What a user's entries were in. Its worker may come to count it after the first of them have gone."""

_EMPTIED = "content, history, names and token vectors deleted; the empty rows go once the index is verified"
_DELETED = "rows deleted, with all that hangs on them"
_DESTROYED = "wrapped key and reference overwritten"

_e = erasures.c
_r = receipts.c
_u = users.c


class Erasing(OnDatabase):
    async def erase_user(
        self, scope: Scope, audit: AuditEvent, stores: Mapping[str, StoreReport] | None = None
    ) -> Receipt:
        """In one transaction: the fence goes up (every later write for scope.user is a Conflict until the erasure is complete), his key
        is destroyed, his entries become empty tombstones. Being erased already: that receipt again. NotFound("user").

        Of a user with more than 2,000 entries the rest goes in further transactions, before this call returns: behind the fence
        nothing comes to them. What a call that was cut off left is done by calling again, or by `advance_erasure`.
        A user of whom no table here knows is not found: one that only the session tier knows has to be given a key first.
        `stores`: what other stores were found to hold before, for the receipt.
        """
        now = self._now()
        _, user_id = owner(scope)

        def work(connection: Connection) -> Receipt:
            row = user_row(connection, scope)
            if row is None:
                raise NotFound("user")
            if row.fenced:
                return _ordered(connection, scope, user_id)
            before = saying_rows(connection, scope)
            keys = int(row.wrapped is not None)
            fence = update(users).where(owned(users, scope)).values(ref=None, wrapped=None, erasing_at=now)
            connection.execute(fence)
            count = connection.scalar(select(func.count()).select_from(memories).where(live(scope))) or 0
            if count == 0:
                append_audit(connection, scope, [replace(audit, memory_ids=())])
            _bury_some(connection, scope, audit, now)
            reports = {
                **(stores or {}),
                _RECORDS: StoreReport(before - keys, None, _EMPTIED),
                _KEYS: StoreReport(keys, 0, _DESTROYED, now),
                _INDEX: StoreReport(count, None, UNINDEXED),
            }
            refs = [row.ref] if row.ref is not None else []
            return _order(connection, scope, audit, count, refs, reports, now)

        receipt = await self._database.write(work)
        await self._bury_rest(scope, audit)
        return receipt

    async def erase_tenant(self, scope: Scope, audit: AuditEvent) -> Receipt:
        """The same for scope's tenant: suspended and fenced for good, every key of its users destroyed. Needs Grant.SYSTEM.
        The rows themselves go in bounded steps, by `erase_rows`. NotFound("tenant").

        The fence goes up first; then the keys go in bounded transactions, each of which waits for the writers that had been let
        through. A call that was cut off between them is completed by another one, or by `erase_rows`.
        """
        scope.require(Grant.SYSTEM)
        scope = replace(scope, user_id=None, session_id=None)
        now = self._now()
        this = tenants.c.id == scope.tenant_id

        def work(connection: Connection) -> Receipt:
            row = connection.execute(select(tenants).where(this).with_for_update()).first()
            if row is None or row.id != scope.tenant_id:
                raise NotFound("tenant")
            if row.erasing_at is not None:
                return _ordered(connection, scope, None)
            fence = {"suspended": True, "erasing_at": now, "version": row.version + 1}
            connection.execute(update(tenants).where(this).values(fence))
            connection.execute(delete(tenant_keys).where(tenant_keys.c.tenant_id == scope.tenant_id))
            mine = (_u.tenant_id == scope.tenant_id, _u.wrapped.is_not(None))
            keys = connection.scalar(select(func.count()).select_from(users).where(*mine)) or 0
            entries = (memories.c.tenant_id == scope.tenant_id, memories.c.deleted_at.is_(None))
            count = connection.scalar(select(func.count()).select_from(memories).where(*entries)) or 0
            stores = {
                _RECORDS: StoreReport(saying_rows(connection, scope) - keys, None, _DELETED),
                _KEYS: StoreReport(keys, None, _DESTROYED),
            }
            append_audit(connection, scope, [audit])
            return _order(connection, scope, audit, count, [], stores, now)

        receipt = await self._database.write(work)
        while await self._database.write(lambda connection: _destroy_keys(connection, scope, now)):
            pass
        return receipt

    async def claim_erasures(
        self, scope: Scope, worker: str, limit: int, lease_s: float, now: datetime
    ) -> list[Erasure]:
        """Due ones that nobody holds, for this worker until now + lease_s: of scope's tenant, or of all with system_scope().
        What has failed comes after what has not. Needs Grant.SYSTEM, as do all that follow."""
        scope.require(Grant.SYSTEM)
        free = and_(_e.due_at <= now, or_(_e.lease_until.is_(None), _e.lease_until <= now))
        if scope.tenant_id != NO_TENANT:
            free = and_(free, _e.tenant_id == scope.tenant_id)
        query = select(erasures).where(free).order_by(_e.attempts, _e.due_at, _e.receipt_id).limit(limit)

        def work(connection: Connection) -> list[Erasure]:
            claimed = []
            for row in connection.execute(query.with_for_update(skip_locked=True)).all():
                this = (_e.tenant_id == row.tenant_id, _e.receipt_id == row.receipt_id)
                until = now + timedelta(seconds=lease_s)
                connection.execute(update(erasures).where(*this).values(owner=worker, lease_until=until))
                claimed.append(_erasure(connection, row))
            return claimed

        return await self._database.write(work) if limit > 0 else []

    async def erase_rows(self, scope: Scope, limit: int) -> int:
        """At most `limit` rows of a fenced tenant go, with all that hangs on them. Returns how many; 0 when none is left.
        Conflict where the tenant is not being erased; one that is not there any more has none left."""
        scope.require(Grant.SYSTEM)
        m = memories.c
        now = self._now()
        query = select(m.id).where(m.tenant_id == scope.tenant_id).order_by(m.id).limit(limit)

        def work(connection: Connection) -> int:
            fence = select(tenants.c.id, tenants.c.erasing_at).where(tenants.c.id == scope.tenant_id)
            tenant = connection.execute(fence).first()
            if tenant is not None and tenant.erasing_at is None:
                raise Conflict("This tenant is not being erased.")
            if tenant is None or limit <= 0:
                return 0
            ids = list(connection.scalars(query))
            if ids:
                connection.execute(delete(memories).where(m.tenant_id == scope.tenant_id, m.id.in_(ids)))
            return len(ids)

        while await self._database.write(lambda connection: _destroy_keys(connection, scope, now)):
            pass
        return await self._database.write(work)

    async def count_rows(self, scope: Scope) -> int:
        """Rows of scope.user (or of the whole tenant) that still say something, in every table: 0 is what an erasure has to show.
        Audit, receipts and tombstones say nothing."""
        scope.require(Grant.SYSTEM)
        return await self._database.read(lambda connection: saying_rows(connection, scope))

    async def tenant_users(self, scope: Scope, after: UserId | None, limit: int) -> Sequence[UserId]:
        """Of scope's tenant, in ascending order: whose sessions have to go. Complete until the erasure is."""
        scope.require(Grant.SYSTEM)
        query = select(_u.user_id).where(_u.tenant_id == scope.tenant_id).order_by(_u.user_id).limit(limit)
        if after is not None:
            query = query.where(_u.user_id > after)
        return await self._database.read(lambda connection: [UserId(user) for user in connection.scalars(query)])

    async def advance_erasure(
        self, scope: Scope, erasure: Erasure, worker: str, stores: Mapping[str, StoreReport], verify_at: datetime | None
    ) -> bool:
        """Keep `stores` in the receipt, beside what it says of others. With `verify_at`: phase `verify`, due then. With None:
        complete; what is left (the fence, the tenant's row) goes, the receipt is dated. False, and due again soon, where another
        worker holds it by now or tombstones still wait for the index.

        Nor is it completed out of phase `apply`, while a store's last count is not 0, while a row here still says something, or
        before deleted bytes are out of the database's own log: False, and due again soon. What `records` and `keys` of the receipt
        hold at the end is counted here.
        """
        scope.require(Grant.SYSTEM)
        if erasure.scope.user_id is not None:
            await self._bury_rest(erasure.scope, AuditEvent("erase", worker, (), self._now()))
        if verify_at is not None:
            return await self._database.write(
                lambda connection: _keep(connection, erasure, worker, stores, "verify", verify_at)
            )
        now = self._now()
        empty = erasure.phase == "verify" and all(
            report.after == 0 for name, report in stores.items() if name not in (_RECORDS, _KEYS)
        )
        if empty and erasure.scope.user_id is None:
            empty = await self._leave_tenant(erasure, worker)
        if not empty or not await self._database.scrub():
            again = now + _SOON
            await self._database.write(lambda connection: _keep(connection, erasure, worker, stores, None, again))
            return False
        return await self._database.write(lambda connection: _complete(connection, erasure, worker, stores, now))

    async def fail_erasure(self, scope: Scope, erasure: Erasure, worker: str, retry_at: datetime) -> None:
        """Given back, due again at `retry_at`. Retries never end, so the caller's delays must grow to a cap."""
        scope.require(Grant.SYSTEM)
        back = {"owner": None, "lease_until": None, "due_at": retry_at, "attempts": _e.attempts + 1}
        mine = (*_this(erasure), _e.owner == worker)
        await self._database.write(lambda connection: connection.execute(update(erasures).where(*mine).values(**back)))

    async def _bury_rest(self, scope: Scope, audit: AuditEvent) -> None:
        now = self._now()
        while await self._database.write(lambda connection: _bury_some(connection, scope, audit, now)):
            pass

    async def _leave_tenant(self, erasure: Erasure, worker: str) -> bool:
        """The users' rows go, in bounded steps, where nothing else is left. False where something is."""
        scope = erasure.scope
        held = select(_e.receipt_id).where(*_this(erasure), _e.owner == worker)
        rows = select(memories.c.id).where(memories.c.tenant_id == scope.tenant_id).limit(1)

        def step(connection: Connection) -> int | None:
            if connection.execute(held).first() is None or connection.execute(rows).first() is not None:
                return None
            page = select(_u.user_id).where(_u.tenant_id == scope.tenant_id).limit(_USERS_A_STEP)
            there = list(connection.scalars(page))
            if there:
                connection.execute(delete(users).where(_u.tenant_id == scope.tenant_id, _u.user_id.in_(there)))
            return len(there)

        while gone := await self._database.write(step):
            pass
        return gone == 0


def _this(erasure: Erasure) -> tuple[ColumnElement[bool], ...]:
    return (_e.tenant_id == erasure.scope.tenant_id, _e.receipt_id == erasure.receipt_id)


def _of(scope: Scope, user_id: str | None) -> tuple[ColumnElement[bool], ...]:
    return (_e.tenant_id == scope.tenant_id, _e.user_id.is_(None) if user_id is None else _e.user_id == user_id)


def _ordered(connection: Connection, scope: Scope, user_id: str | None) -> Receipt:
    """The receipt of the erasure that is under way: the user's own, or that of his tenant."""
    order = connection.scalar(select(_e.receipt_id).where(*_of(scope, user_id)))
    if order is None:
        order = connection.scalar(select(_e.receipt_id).where(*_of(scope, None)))
    row = connection.execute(RECEIPTS.where(_r.tenant_id == scope.tenant_id, _r.id == order)).first()
    if row is None:
        raise NotFound("user")
    return to_receipt(row)


def _bury_some(connection: Connection, scope: Scope, audit: AuditEvent, now: datetime) -> int:
    """The next entries of a user who is being erased; none of one who has begun anew by now."""
    row = user_row(connection, scope)
    if row is None or row.erasing_at is None:
        return 0
    m = memories.c
    query = select(m.id).where(live(scope)).order_by(m.id).limit(_ENTRIES_A_STEP)
    gone = list(connection.scalars(query))
    if gone:
        bury(connection, scope, gone, now, receipt_id=None)
        append_audit(connection, scope, [replace(audit, memory_ids=tuple(map(MemoryId, gone)))])
    return len(gone)


def _order(
    connection: Connection,
    scope: Scope,
    audit: AuditEvent,
    count: int,
    refs: Sequence[str],
    stores: Mapping[str, StoreReport],
    now: datetime,
) -> Receipt:
    receipt_id = time_ordered_id("rcp", audit.at, secrets.token_bytes(10))
    whose = {"tenant_id": scope.tenant_id, "user_id": scope.user_id, "requested_at": audit.at}
    connection.execute(
        insert(receipts).values(
            **whose,
            id=receipt_id,
            action=audit.action,
            count=count,
            pending=0,
            records_at=now,
            stores=from_reports(stores),
        )
    )
    connection.execute(
        insert(erasures).values(**whose, receipt_id=receipt_id, refs=list(refs), phase="erase", due_at=now, attempts=0)
    )
    return Receipt(receipt_id, audit.action, count, audit.at, None, stores, scope.user_id)


def _destroy_keys(connection: Connection, scope: Scope, now: datetime) -> int:
    """The next keys of a fenced tenant's users."""
    mine = (_u.tenant_id == scope.tenant_id, _u.erasing_at.is_(None))
    fenced = select(tenants.c.id).where(tenants.c.id == scope.tenant_id, tenants.c.erasing_at.is_not(None))
    if connection.execute(fenced).first() is None:
        return 0
    page = select(_u.user_id).where(*mine).order_by(_u.user_id).limit(_USERS_A_STEP).with_for_update()
    there = list(connection.scalars(page))
    if there:
        these = (_u.tenant_id == scope.tenant_id, _u.user_id.in_(there))
        connection.execute(update(users).where(*these).values(ref=None, wrapped=None, erasing_at=now))
    return len(there)


def _keep(
    connection: Connection,
    erasure: Erasure,
    worker: str,
    stores: Mapping[str, StoreReport],
    phase: str | None,
    due_at: datetime,
) -> bool:
    """Store what was found so far and let go. False where another worker holds it."""
    row = connection.execute(select(_e.owner).where(*_this(erasure)).with_for_update()).first()
    if row is None or row.owner != worker:
        return False
    values: dict[str, Any] = {"due_at": due_at, "owner": None, "lease_until": None, "attempts": 0}
    if phase is not None:
        values["phase"] = phase
    connection.execute(update(erasures).where(*_this(erasure)).values(**values))
    _report(connection, erasure, {**_reported(connection, erasure), **stores})
    return True


def _reported(connection: Connection, erasure: Erasure) -> dict[str, StoreReport]:
    tenant_id, receipt_id = erasure.scope.tenant_id, erasure.receipt_id
    return to_reports(connection.scalar(select(_r.stores).where(_r.tenant_id == tenant_id, _r.id == receipt_id)) or {})


def _report(connection: Connection, erasure: Erasure, stores: Mapping[str, StoreReport], **values: Any) -> None:
    this = (_r.tenant_id == erasure.scope.tenant_id, _r.id == erasure.receipt_id)
    connection.execute(update(receipts).where(*this).values(stores=from_reports(stores), **values))


def _complete(
    connection: Connection, erasure: Erasure, worker: str, stores: Mapping[str, StoreReport], now: datetime
) -> bool:
    scope = erasure.scope
    row = connection.execute(select(_e.owner, _e.phase).where(*_this(erasure)).with_for_update()).first()
    if row is None or row.owner != worker:
        return False
    whose = true() if scope.user_id is None else memories.c.user_id == scope.user_id
    waiting = select(memories.c.id).where(memories.c.tenant_id == scope.tenant_id, whose).limit(1)
    rest = connection.execute(waiting).first() is not None or saying_rows(connection, scope) > 0
    found = {**_reported(connection, erasure), **stores}
    for name in (_RECORDS, _KEYS):
        if name in found and not rest:
            found[name] = replace(found[name], after=0, at=now)
    if row.phase != "verify" or rest or any(report.after != 0 for report in found.values()):
        _keep(connection, erasure, worker, stores, None, now + _SOON)
        return False
    if scope.user_id is not None:
        connection.execute(delete(users).where(owned(users, scope)))
        connection.execute(delete(erasures).where(*_this(erasure)))
    else:
        tenant_id = scope.tenant_id
        connection.execute(delete(placements).where(placements.c.tenant_id == tenant_id))
        connection.execute(
            delete(erasures).where(_e.tenant_id == tenant_id)
        )  # his users' own orders are carried out with it
        connection.execute(delete(tenants).where(tenants.c.id == tenant_id))
        open_ = (_r.tenant_id == tenant_id, _r.completed_at.is_(None))
        connection.execute(update(receipts).where(*open_).values(completed_at=now, pending=0))
    _report(connection, erasure, found, completed_at=now)
    return True


def _erasure(connection: Connection, row: Row[Any]) -> Erasure:
    scope = system_scope(TenantId(row.tenant_id), None if row.user_id is None else UserId(row.user_id))
    refs = tuple(UserRef(ref) for ref in row.refs)
    phase = cast(Literal["erase", "verify"], row.phase)
    erasure = Erasure(row.receipt_id, scope, refs, phase, row.requested_at, {}, row.attempts)
    return replace(erasure, stores=_reported(connection, erasure))
