"""Erasing a user or a tenant (I3): the order is written and the fence is up when these return; workers carry it out."""

import asyncio
from datetime import datetime

import structlog

from deployments.edge.caller import Caller
from deployments.services import Services
from memory.errors import NotFound, StrataError
from memory.ids import TenantId
from memory.scope import Scope, system_scope
from storage.protocols import AuditEvent, ErasureStore, Lookup, Plan, Receipt, StoreReport

log = structlog.get_logger(__name__)

FENCE_S = 300.0
"""How long no session of an erased user is opened; the Eraser renews it, and takes it down when the erasure is complete."""
AT_ONCE_S = 3.0
"""What the request itself gives to the session tier, whose every key is looked at; the Eraser takes the time that it needs."""
SESSIONS = "sessions, turns and state deleted; none is opened until the erasure is complete"


async def erase_user(svc: Services, caller: Caller) -> Receipt:
    """Everything of caller.scope.user, in every store, for good. His sessions end at once; nothing of him is written any more until it
    is complete. NotFound("user") where no store knows him. Being erased already: that receipt again."""
    scope = caller.scope
    event = AuditEvent("erase_user", caller.actor, (), svc.clock(), reason="requested")
    sessions = await _sessions(svc, scope)
    stores = {} if sessions is None else {"sessions": StoreReport(sessions, None, SESSIONS, svc.clock())}
    try:
        receipt = await svc.records.erase_user(scope, event, stores)
    except NotFound:
        if not await svc.sessions.count_user(scope) and not await svc.idempotency.count_user(scope):
            raise
        # Only the session tier knows him: the fence needs a row to stand on.
        await svc.records.write(scope, Lookup(unindexed=0), lambda _: Plan(()), (), 1)
        receipt = await svc.records.erase_user(scope, event, stores)
    try:
        async with asyncio.timeout(AT_ONCE_S):
            await svc.sessions.forget_user(scope, FENCE_S)
    except (StrataError, TimeoutError):
        log.warning("sessions_left_to_the_eraser")
    svc.wake_curator()
    return receipt


async def _sessions(svc: Services, scope: Scope) -> int | None:
    """How many there are, for the receipt. None where that cannot be said in time: then the Eraser counts what it finds."""
    try:
        async with asyncio.timeout(AT_ONCE_S):
            return await svc.sessions.count_user(scope)
    except (StrataError, TimeoutError):
        return None


async def erase_tenant(records: ErasureStore, tenant_id: TenantId, actor: str, now: datetime) -> Receipt:
    """The whole tenant, for good: suspended and fenced at once, its users' keys destroyed. For the command line alone: no credential
    of a tenant may do this. NotFound("tenant")."""
    return await records.erase_tenant(system_scope(tenant_id), AuditEvent("erase_tenant", actor, (), now))


async def receipt(svc: Services, caller: Caller, receipt_id: str) -> Receipt:
    """NotFound("receipt") unless it is of caller's user; of any of the tenant where the caller names none."""
    return await svc.records.receipt(caller.scope, receipt_id)
