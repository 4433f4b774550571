"""Who is asking, once that is known."""

from dataclasses import dataclass, field, replace

from memory.errors import InvalidInput
from memory.ids import SessionId, UserId, checked_id
from memory.policy import Policy
from memory.scope import Scope
from storage.protocols import Due


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is asking, and by which rules. `actor` is what the audit names: `key:<id>` or `session:<id>`."""

    scope: Scope
    policy: Policy
    actor: str
    request_id: str
    time_zone: str | None = None
    due: Due | None = field(default=None, compare=False)
    """There where the call itself counts the request against the tenant's rate, in the same round trip as its first read."""

    @property
    def by_session(self) -> bool:
        return self.actor.startswith("session:")

    def for_user(self, user_id: str | None) -> "Caller":
        """Narrowed to one user. A token's user may be left out; a tenant key has to name one. Another's: NotFound("user")."""
        if user_id is None:
            if self.scope.user_id is None:
                raise InvalidInput("user_id", "is required with a tenant key: which of your users is meant?")
            return self
        return replace(self, scope=self.scope.narrowed(user_id=UserId(checked_id(user_id, "user_id"))))

    def for_session(self, session_id: str, owner: str | None = None) -> "Caller":
        """Narrowed to one session, and to its owner where the scope names no user yet."""
        session = SessionId(checked_id(session_id, "session_id"))
        scope = self.scope.narrowed(session_id=session)
        return replace(self, scope=scope if owner is None else scope.narrowed(user_id=UserId(owner)))
