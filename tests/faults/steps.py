"""Steps at which a process can end: before and after each call of a store, after each statement that writes to SQL, and before a commit.

Nothing in the product knows of it: the stores' classes are wrapped, and SQLAlchemy's events listened to, in the process that is to
die. A first run without an end lists the steps, so that they follow the code.
"""

import functools
import inspect
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

from memory.ids import TenantId
from memory.scope import Scope, system_scope
from storage.index.local import LocalIndex
from storage.records import SqlRecords
from storage.records.versions import SqlVersions
from storage.sessions.idempotency import RedisIdempotency
from storage.sessions.redis_store import RedisSessions

STORES: dict[str, type] = {
    "sessions": RedisSessions,
    "idempotency": RedisIdempotency,
    "records": SqlRecords,
    "index": LocalIndex,
    "versions": SqlVersions,
}
READS = frozenset({"check", "ping", "aclose", "backlog", "owner", "count", "versions", "placements"})
"""Calls beside which nothing can go wrong that does not go wrong at their neighbours."""

_VERBS = ("INSERT", "UPDATE", "DELETE")
_WROTE = "faults_wrote"
_CHANGING = frozenset(
    [
        *("idempotency.claim", "idempotency.finish", "idempotency.forget_user"),
        *("sessions.append", "sessions.replace_turn", "sessions.forget_user"),
        *("records.write", "records.delete", "records.retract_turns", "records.erase_user", "records.store_tokens"),
        *("records.claim_dirty", "records.finish_dirty", "records.claim_erasures", "records.advance_erasure"),
        *("records.mark", "versions.put", "versions.activate", "versions.drop"),
        *(
            "index.upsert",
            "index.remove",
            "index.remove_user",
            "index.scrub",
            "index.ensure_tenant",
            "index.drop_tenant",
        ),
    ]
)

Hook = Callable[[str], Awaitable[None] | None]


class Steps:
    """Counts steps by name while `armed`; where step `at` is reached the process kills itself, or stops where `stop` says so."""

    def __init__(self, at: str | None = None, stop: bool = False) -> None:
        self.seen: list[str] = []
        self.armed = False
        self._at, self._counts = at, Counter[str]()
        self._signal = signal.SIGSTOP if stop else signal.SIGKILL

    def reach(self, name: str) -> None:
        if not self.armed:
            return
        self._counts[name] += 1
        step = f"{name} #{self._counts[name]}"
        self.seen.append(step)
        if step == self._at:
            os.kill(os.getpid(), self._signal)

    def install(self, stores: dict[str, type] | None = None) -> "Steps":
        """In this process, for good."""
        for store, kind in (STORES if stores is None else stores).items():
            for name, method in inspect.getmembers(kind, inspect.iscoroutinefunction):
                if not name.startswith("_") and name not in READS:
                    setattr(kind, name, self._wrapped(f"{store}.{name}", method))
        event.listen(Engine, "begin", lambda connection: connection.info.pop(_WROTE, None))
        event.listen(Engine, "after_cursor_execute", self._executed)
        event.listen(Engine, "commit", self._committing)
        return self

    def _wrapped(self, name: str, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @functools.wraps(method)
        async def stepped(*args: Any, **named: Any) -> Any:
            self.reach(f"before {name}")
            result = await method(*args, **named)
            self.reach(f"after {name}")
            return result

        return stepped

    def _executed(self, connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        verb, _, rest = statement.lstrip().partition(" ")
        if verb.upper() in _VERBS:
            connection.info[_WROTE] = True
            self.reach(f"sql {verb.lower()} {table_of(rest)}")

    def _committing(self, connection: Any) -> None:
        if connection.info.pop(_WROTE, False):
            self.reach("sql commit")


def table_of(rest: str) -> str:
    """The table of `INTO memories (…`, `FROM dirty WHERE …`, `memories SET …`."""
    words = rest.replace("`", " ").replace('"', " ").replace("(", " ").split()
    return next(word for word in words if word.upper() not in ("INTO", "FROM", "IGNORE"))


def places_to_die(steps: Sequence[str]) -> list[str]:
    """Each once: between the end of a call and the beginning of the next, nothing happens that anybody could see."""
    return [step for step in steps if not step.startswith("before ")]


def changes(steps: Sequence[str]) -> list[str]:
    """A lean choice of them: before each commit, and after each call that changes something. A process that dies after a read leaves
    what one leaves that died before it."""
    return [step for step in steps if step.startswith("sql commit") or _called(step) in _CHANGING]


def _called(step: str) -> str:
    return step.removeprefix("after ").partition(" ")[0]


def serve_only(tenant: str, lease_s: float | None = None) -> None:
    """In this process, workers find the work of one tenant alone: what others left would make the steps differ from run to run.
    `lease_s`: the lease that they get, whatever they ask for."""
    scope = system_scope(TenantId(tenant))
    for name in ("claim_dirty", "claim_erasures"):
        setattr(SqlRecords, name, _narrowed(getattr(SqlRecords, name), scope, lease_s))


def _narrowed(
    claim: Callable[..., Awaitable[Any]], scope: Scope, lease_s: float | None
) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(claim)
    async def narrowed(self: Any, _: Scope, worker: str, limit: int, asked_s: float, now: datetime) -> Any:
        return await claim(self, scope, worker, limit, lease_s or asked_s, now)

    return narrowed
