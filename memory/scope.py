"""Who is asking. The first argument of every storage call; made in one place, from a verified credential.

I1: no field of a request can widen it. An empty set of grants means nothing, never everything (P22).
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from memory.errors import Forbidden, NotFound
from memory.ids import SessionId, TenantId, UserId


class Grant(StrEnum):
    """What a credential may do."""

    MEMORY = "memory"  # sessions, turns, context, memories of the tenant's users
    IMPORT = "import"  # verbatim writes, past the gate
    ADMIN = "admin"  # export, erasure, maintenance
    AUDIT = "audit"
    POOL = "pool"
    REVIEW = "review"
    SYSTEM = "system"  # Strata's own workers; no credential ever carries it


@dataclass(frozen=True, slots=True)
class Scope:
    """`user_id` and `session_id` are None where the caller has not narrowed to one; a storage call that needs them asks
    `for_user` or `for_session` and so cannot run unfiltered by accident."""

    tenant_id: TenantId
    user_id: UserId | None = None
    session_id: SessionId | None = None
    grants: frozenset[Grant] = frozenset()

    def require(self, grant: Grant) -> None:
        """Raises Forbidden unless this scope carries `grant`."""
        if grant not in self.grants:
            raise Forbidden(grant.value)

    @property
    def user(self) -> UserId:
        """The user; NotFound("user") where there is none: a query without its user filter must not run."""
        if self.user_id is None:
            raise NotFound("user")
        return self.user_id

    @property
    def session(self) -> SessionId:
        """The session; NotFound("session") where there is none."""
        if self.session_id is None:
            raise NotFound("session")
        return self.session_id

    def narrowed(self, user_id: UserId | None = None, session_id: SessionId | None = None) -> "Scope":
        """The same scope for one user or session. Only narrows: another user or session than the one already held is NotFound."""
        if user_id is not None and self.user_id not in (None, user_id):
            raise NotFound("user")
        if session_id is not None and self.session_id not in (None, session_id):
            raise NotFound("session")
        return replace(self, user_id=user_id or self.user_id, session_id=session_id or self.session_id)


NO_TENANT = TenantId("-")


def system_scope(tenant_id: TenantId = NO_TENANT, user_id: UserId | None = None) -> Scope:
    """For Strata's own workers (curator, migrations, credential look-up). Never made from a request."""
    return Scope(tenant_id, user_id, grants=frozenset({Grant.SYSTEM}))
