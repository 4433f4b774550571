"""The one place where a Scope is made: from a verified credential, and from nothing else (I1, P20).

What a request says about users and sessions only narrows that scope. A foreign user or session answers like one that does not
exist.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Protocol

import structlog
from starlette.requests import Request

from deployments.edge.caller import Caller
from deployments.edge.credentials import (
    BAD_KEY,
    BAD_TOKEN,
    Pepper,
    SessionClaims,
    TokenKeys,
    key_matches,
    sign_token,
    split_key,
    verify_token,
)
from deployments.edge.facts import facts_of
from deployments.telemetry.metrics import CacheCount
from memory.errors import DeadlineExceeded, Forbidden, NotFound, StrataError, Unauthenticated, Unavailable
from memory.ids import TenantId
from memory.policy import Policy
from memory.scope import Grant, Scope, system_scope
from memory.turns import Session
from storage.protocols import Due, KeyRecord, TenantRecord, TenantStore

log = structlog.get_logger(__name__)

SESSION_GRANTS = frozenset({Grant.MEMORY})
KEY_CACHE_SECONDS = 5.0
KEY_STALE_SECONDS = 600.0
KEY_CACHE_SIZE = 2048
NOBODYS_DIGEST = bytes(32)

_looked_up = CacheCount("key")


class Policies(Protocol):
    """A tenant's record and policy from memory (deployments/policies.py)."""

    async def tenant(self, tenant_id: TenantId) -> tuple[TenantRecord, Policy]: ...

    def on_change(self, callback: Callable[[TenantId], None]) -> None: ...


class TenantSuspended(Forbidden):
    @property
    def detail(self) -> str:
        return "This tenant is suspended."


class KeyRequired(Forbidden):
    @property
    def detail(self) -> str:
        return "Only a tenant key may do this; a session token acts for its own session alone."


@dataclass(frozen=True, slots=True)
class _KnownKey:
    record: KeyRecord
    read_at: datetime


class Authenticator:
    """Verifies credentials. Key records are kept for seconds, longer only while the store is away (an outage of SQL must not end
    sessions); a change of a tenant forgets its keys at once."""

    def __init__(
        self,
        tenants: TenantStore,
        policies: Policies,
        token_keys: TokenKeys,
        pepper: Pepper,
        clock: Callable[[], datetime],
        cache_seconds: float = KEY_CACHE_SECONDS,
        cache_size: int = KEY_CACHE_SIZE,
    ) -> None:
        self._tenants, self._policies = tenants, policies
        self._token_keys, self._pepper, self._clock = token_keys, pepper, clock
        self._fresh = timedelta(seconds=cache_seconds)
        self._stale = timedelta(seconds=KEY_STALE_SECONDS)
        self._size = cache_size
        self._known: OrderedDict[str, _KnownKey] = OrderedDict()
        self._verified: OrderedDict[str, SessionClaims] = OrderedDict()
        policies.on_change(self._forget)

    async def authenticate(self, authorization: str | None, request_id: str) -> Caller:
        """The caller behind an Authorization header. Unauthenticated, TenantSuspended, or Unavailable where nothing is known."""
        if not authorization:
            raise Unauthenticated("Send `Authorization: Bearer <tenant key or session token>`.")
        kind, _, credential = authorization.partition(" ")
        credential = credential.strip(" ")
        if kind.lower() != "bearer":
            raise Unauthenticated("The Authorization header must be `Bearer <tenant key or session token>`.")
        if credential.startswith("sk_"):
            return await self._by_key(credential, request_id)
        if credential.startswith("st_"):
            return await self._by_token(credential, request_id)
        raise Unauthenticated("The credential is neither a tenant key (sk_…) nor a session token (st_…).")

    def issue_token(self, caller: Caller, session: Session) -> tuple[str, datetime]:
        """A token for `session`, and when it expires. Only the session's own tenant and user can get one."""
        scope = caller.scope.narrowed(user_id=session.user_id, session_id=session.id)
        now = self._clock()
        expires_at = now + timedelta(seconds=caller.policy.session.token_seconds)
        claims = SessionClaims(scope.tenant_id, scope.user, scope.session, expires_at, session.time_zone)
        return sign_token(claims, self._token_keys, now), expires_at

    async def _by_key(self, credential: str, request_id: str) -> Caller:
        key_id, secret = split_key(credential)
        record = await self._key(key_id)
        # An unknown id costs the same comparison as a wrong secret.
        matches = key_matches(secret, NOBODYS_DIGEST if record is None else record.digest, self._pepper)
        if record is None or not matches or (record.expires_at is not None and record.expires_at <= self._clock()):
            raise Unauthenticated(BAD_KEY)
        policy = await self._policy(record.tenant_id, BAD_KEY)
        scope = Scope(record.tenant_id, grants=record.grants - {Grant.SYSTEM})
        return Caller(scope, policy, f"key:{record.id}", request_id)

    async def _by_token(self, credential: str, request_id: str) -> Caller:
        claims = self._claims(credential)
        policy = await self._policy(claims.tenant_id, BAD_TOKEN)
        scope = Scope(claims.tenant_id, claims.user_id, claims.session_id, SESSION_GRANTS)
        return Caller(scope, policy, f"session:{claims.session_id}", request_id, claims.time_zone)

    def _claims(self, token: str) -> SessionClaims:
        """An agent sends one token with every call: a verified one is remembered, and only its expiry is looked at again."""
        now = self._clock()
        claims = self._verified.get(token)
        if claims is None or now >= claims.expires_at:
            self._verified.pop(token, None)
            claims = verify_token(token, self._token_keys, now)
            self._verified[token] = claims
            while len(self._verified) > self._size:
                self._verified.popitem(last=False)
        return claims

    async def _policy(self, tenant_id: TenantId, why: str) -> Policy:
        try:
            record, policy = await self._policies.tenant(tenant_id)
        except NotFound:
            raise Unauthenticated(why) from None
        if record.suspended:
            raise TenantSuspended("tenant")
        return policy

    async def _key(self, key_id: str) -> KeyRecord | None:
        """Only found keys are kept: a flood of invented ids must not push out the real ones."""
        now = self._clock()
        known = self._known.get(key_id)
        if known is not None and now - known.read_at < self._fresh:
            _looked_up(True)
            return known.record
        _looked_up(False)
        try:
            record = await self._tenants.key(system_scope(), key_id)
        except NotFound:
            self._known.pop(key_id, None)
            return None
        except StrataError:
            if known is not None and now - known.read_at < self._stale:
                return known.record
            raise
        self._known[key_id] = _KnownKey(record, now)
        self._known.move_to_end(key_id)
        while len(self._known) > self._size:
            self._known.popitem(last=False)
        return record

    def _forget(self, tenant_id: TenantId) -> None:
        for key_id in [key_id for key_id, known in self._known.items() if known.record.tenant_id == tenant_id]:
            del self._known[key_id]


def services_of(request: Request) -> Any:
    """The replica's services; Unavailable while they are still being opened."""
    services = getattr(request.app.state, "services", None)
    if services is None:
        raise Unavailable("The service")
    return services


@dataclass(frozen=True)
class Guard:
    """What a route demands: a credential that carries `grant`, or the one that may stand `instead` of it; with `key_only` a tenant key.
    As a dependency it answers the Caller. With `counts_itself` the call sees to the tenant's rate (Caller.due); what it leaves undone,
    because the request was refused before, the route does.

    The route runs it before anything of the body is read; the dependency then finds the caller in the request's facts.
    """

    grant: Grant
    key_only: bool = False
    instead: Grant | None = None
    counts_itself: bool = False

    async def __call__(self, request: Request) -> Caller:
        facts = facts_of(request.scope)
        if facts.caller is not None:
            return facts.caller
        services = services_of(request)
        given = request.headers.getlist("authorization")
        if len(given) > 1:
            raise Unauthenticated("Send one Authorization header.")
        caller: Caller = await services.authenticator.authenticate(given[0] if given else None, facts.request_id)
        facts.tenant_id = caller.scope.tenant_id
        if self.key_only and caller.by_session:
            raise KeyRequired("key")
        if self.instead not in caller.scope.grants:
            caller.scope.require(self.grant)
        if self.counts_itself and not services.rates.full(caller.scope):
            caller = replace(caller, due=Due(caller.policy.quotas.requests_per_minute))
        else:
            await _count(services, caller)
        facts.caller = caller
        return caller

    async def settle(self, request: Request, refused: bool) -> None:
        """The request is over: it is counted now where it has not been. `refused`: for its tenant's rate."""
        caller = facts_of(request.scope).caller
        if caller is None or caller.due is None:
            return
        services = services_of(request)
        if refused:
            services.rates.note_full(caller.scope)
        if not caller.due.taken:
            caller.due.taken = True
            await _count(services, caller)


async def _count(services: Any, caller: Caller) -> None:
    """The tenant's request rate: Overloaded over it. Rates live with the sessions; while that store is away nothing is counted."""
    try:
        await services.rates.hit(caller.scope, caller.policy.quotas.requests_per_minute)
    except (Unavailable, DeadlineExceeded):
        log.warning("rates_unavailable")


@lru_cache
def caller_with(grant: Grant, key_only: bool = False, counts_itself: bool = False) -> Guard:
    """The dependency of a route that needs `grant`."""
    return Guard(grant, key_only, counts_itself=counts_itself)


async def session_caller(services: Any, caller: Caller, session_id: str) -> Caller:
    """Narrowed to the session that a path or body names (P23): a token's own, or, for a tenant key, one of the tenant's, whose
    owner the store knows. NotFound("session") otherwise."""
    narrowed = caller.for_session(session_id)
    if caller.by_session:
        return narrowed
    owner = await services.sessions.owner(narrowed.scope)
    return narrowed.for_session(session_id, owner)
