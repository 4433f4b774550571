"""Names of keys. A hash tag holds all of a session's keys in one slot, and all of a user's list in another.

Ids are checked once more where a name is made: `:` and `}` in one would break out of its name, so that isolation must not
hang on a check elsewhere (P24).
"""

import hashlib

from memory.ids import SessionId, UserId, checked_id
from memory.scope import Scope

_PREFIX = "strata"


def session_keys(scope: Scope) -> tuple[str, ...]:
    """Owner, meta, order, turns, asked: see lua/session_prelude.lua. All but the owner's name hold the user (P23)."""
    tenant, user, session = _checked(scope.tenant_id, scope.user, scope.session)
    slot = f"{_PREFIX}:session:{{{tenant}:{session}}}"
    mine = f"{slot}:user:{user}"
    return (f"{slot}:owner", f"{mine}:meta", f"{mine}:order", f"{mine}:turns", f"{mine}:asked")


def owner_key(scope: Scope) -> str:
    """Session ids are unique within a tenant, so that its key can address a session without naming the user."""
    tenant = checked_id(scope.tenant_id, "tenant_id")
    session = checked_id(scope.session, "session_id")
    return f"{_PREFIX}:session:{{{tenant}:{session}}}:owner"


def listing_keys(scope: Scope) -> tuple[str, ...]:
    """Created, expires, ttl: see lua/listing_prelude.lua."""
    tenant, user = checked_id(scope.tenant_id, "tenant_id"), checked_id(scope.user, "user_id")
    slot = f"{_PREFIX}:sessions:{{{tenant}:{user}}}"
    return (f"{slot}:created", f"{slot}:expires", f"{slot}:ttl")


def fenced_listing_keys(scope: Scope) -> tuple[str, ...]:
    """The same and the user's fence. Only where it is looked at: while a cluster moves a slot, a script that names a key that is not
    there has to wait."""
    return (*listing_keys(scope), user_fence(scope))


def user_fence(scope: Scope) -> str:
    """There while the user is being erased."""
    return _fence(checked_id(scope.tenant_id, "tenant_id"), checked_id(scope.user, "user_id"))


def tenant_fence(scope: Scope) -> str:
    """There while the whole tenant is being erased."""
    return _fence(checked_id(scope.tenant_id, "tenant_id"), "")


def rate_key(scope: Scope) -> str:
    """The tenant's counters of requests."""
    return f"{_PREFIX}:rate:{{{checked_id(scope.tenant_id, 'tenant_id')}}}"


def claim_keys(scope: Scope, key: str) -> tuple[str, str]:
    """The claim, and the fence of its user. A caller's Idempotency-Key is any text: only its digest is kept. Without a user the claim
    is the tenant's own."""
    tenant = checked_id(scope.tenant_id, "tenant_id")
    user = checked_id(scope.user_id, "user_id") if scope.user_id is not None else ""
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=20).hexdigest()
    return (f"{_PREFIX}:claim:{{{tenant}:{user}}}:{digest}", _fence(tenant, user))


def sessions_pattern(scope: Scope) -> str:
    """Of every key of every session of scope.user; ids hold nothing that a pattern would take for more than itself."""
    tenant, user = checked_id(scope.tenant_id, "tenant_id"), checked_id(scope.user, "user_id")
    return f"{_PREFIX}:session:{{{tenant}:*}}:user:{user}:*"


def claims_pattern(scope: Scope) -> str:
    """Of every claim of scope.user."""
    tenant, user = checked_id(scope.tenant_id, "tenant_id"), checked_id(scope.user, "user_id")
    return f"{_PREFIX}:claim:{{{tenant}:{user}}}:*"


def tenant_patterns(scope: Scope) -> tuple[str, ...]:
    """Of every key of the tenant but its rates, and the fences that see to its end."""
    tenant = checked_id(scope.tenant_id, "tenant_id")
    return tuple(f"{_PREFIX}:{kind}:{{{tenant}:*" for kind in ("session", "sessions", "claim"))


def session_of(key: bytes) -> tuple[SessionId, UserId | None]:
    """Whose the key of a session is; None for the owner's name, which is the session's alone."""
    tag, _, rest = key.decode().partition("{")[2].partition("}")
    _, is_users, tail = rest.partition(":user:")
    return SessionId(tag.partition(":")[2]), UserId(tail.rpartition(":")[0]) if is_users else None


def _fence(tenant: str, user: str) -> str:
    return f"{_PREFIX}:fence:{{{tenant}:{user}}}"


def _checked(tenant: str, user: str, session: str) -> tuple[str, str, str]:
    return checked_id(tenant, "tenant_id"), checked_id(user, "user_id"), checked_id(session, "session_id")
