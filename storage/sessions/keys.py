"""Names of keys. A hash tag holds all of a session's keys in one slot, and all of a user's list in another.

Ids are checked once more where a name is made: `:` and `}` in one would break out of its name, so that isolation must not
hang on a check elsewhere (P24).
"""

import hashlib

from memory.ids import checked_id
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


def claim_key(scope: Scope, key: str) -> str:
    """A caller's Idempotency-Key is any text: only its digest is kept. Without a user the claim is the tenant's own."""
    tenant = checked_id(scope.tenant_id, "tenant_id")
    user = checked_id(scope.user_id, "user_id") if scope.user_id is not None else ""
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=20).hexdigest()
    return f"{_PREFIX}:claim:{{{tenant}:{user}}}:{digest}"


def _checked(tenant: str, user: str, session: str) -> tuple[str, str, str]:
    return checked_id(tenant, "tenant_id"), checked_id(user, "user_id"), checked_id(session, "session_id")
