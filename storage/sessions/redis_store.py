"""Sessions on the Redis protocol: Valkey, Redis. Implements storage.protocols.SessionStore.

A session is five keys in one slot, changed by Lua scripts that run whole or not at all; all five die at the same moment,
which every call puts off by the session's own TTL (T1: expiry needs no job). The user's list of sessions is in a slot of its
own: an entry is made before its session and never dies before it, so that erasure finds every session.
"""

from collections.abc import Sequence
from typing import Any

from memory.errors import Conflict, InvalidInput, NotFound, Overloaded
from memory.ids import MemoryId, SessionId, TurnId, UserId, checked_id
from memory.scope import Scope
from memory.turns import NewTurn, Role, Session, SessionSnapshot, TaskState, Turn
from storage.cursors import bad_cursor, encode_cursor, position_after
from storage.protocols import Due, Page, ReplacedTurns
from storage.sessions import scripts
from storage.sessions.client import Call, SessionClient
from storage.sessions.codec import (
    accepted,
    decode_ids,
    decode_session,
    decode_state,
    decode_transcript,
    decode_turn,
    decode_turns,
    dumped,
    encode_metadata,
    encode_state,
    encode_turn,
    micros,
)
from storage.sessions.forgetting import (
    count_sessions,
    count_tenant,
    forget_sessions,
    forget_tenant,
    lift_fence,
    milliseconds,
)
from storage.sessions.keys import fenced_listing_keys, listing_keys, owner_key, session_keys, tenant_fence
from storage.sessions.rates import check, counting

_MAX_PAGE = 1000


class RedisSessions:
    """See storage.protocols.SessionStore. Session ids are unique within a tenant: `owner` finds the user of one."""

    def __init__(self, client: SessionClient) -> None:
        self._client = client
        client.register(scripts.OWNER)
        client.register(scripts.SESSION)
        client.register(scripts.LISTING)
        client.register(scripts.FORGETTING)
        client.register(scripts.RATES)

    # --- sessions

    async def open(self, scope: Scope, session: Session, ttl_s: int, limit: int) -> Session:
        """Four round trips: a place in the user's list (which holds the limit), the session, the place confirmed, the session
        there for all. An id that is in use within the tenant, by whomever: Conflict, which doesn't say by whom."""
        if ttl_s < 1:
            raise InvalidInput("ttl_seconds", "use a whole number of seconds, at least 1")
        keys, name = session_keys(scope), scope.session
        listing, fenced = listing_keys(scope), fenced_listing_keys(scope)
        created = micros(session.created_at, "created_at")
        about = (session.time_zone or "", session.language or "", encode_metadata(session.metadata))
        unconfirmed_ms = milliseconds(self._client.deadline_s) + 1000
        run = self._client.run
        async with self._client.deadline():
            (place,) = await run(Call("list_reserve", fenced, (name, created, ttl_s, limit)), repeat=True)
            if place[0] == b"fenced":
                raise _being_erased()
            if place[0] == b"full":
                raise Overloaded("sessions per user", place[1] / 1000)
            opening = Call("open", keys, (scope.user, created, ttl_s, *about, unconfirmed_ms))
            (opened,) = await run(opening, repeat=True)
            if opened == b"taken":
                if place[0] == b"new":
                    await run(Call("list_take", listing, (name,)), repeat=True)
                raise Conflict("session_id: already in use; choose another, or leave it out to be given one.")
            state, reply = opened
            confirm = Call("list_confirm", fenced, (name, reply[2], reply[6]))
            (confirmed, tenant_fenced) = await run(confirm, Call("fenced", (tenant_fence(scope),)), repeat=True)
            if (
                tenant_fenced or not confirmed
            ):  # the user's sessions were forgotten while this one was opened: it goes too
                await run(Call("drop", keys), Call("list_take", listing, (name,)), repeat=True)
                raise _being_erased()
            if state == b"new":
                (reply,) = await run(Call("opened", keys), repeat=True)
                if reply is None:
                    raise _being_erased()
        return decode_session(name, scope.user, reply)

    async def owner(self, scope: Scope) -> UserId:
        """The user of scope.session, for a tenant's key, which may address a session without naming its user. Nothing is renewed.
        NotFound("session") where there is none, or where scope.user_id is another."""
        key = owner_key(scope)
        async with self._client.deadline():
            (found,) = await self._client.run(Call("owner", (key,)), repeat=True)
        if found is None or scope.user_id not in (None, found.decode()):
            raise NotFound("session")
        return UserId(found.decode())

    async def get(self, scope: Scope) -> Session:
        return decode_session(scope.session, scope.user, await self._use(scope, "get"))

    async def page(self, scope: Scope, limit: int, cursor: str | None) -> Page[Session]:
        """The user's live sessions, newest first. Looking at the list renews none of them."""
        _check_limit(limit)
        before = _sessions_place(scope, cursor)
        found: list[Session] = []
        async with self._client.deadline():
            while True:
                asked = Call("list_page", listing_keys(scope), (*before, limit + 1))
                (reply,) = await self._client.run(asked, repeat=True)
                listed = list(zip(reply[::2], reply[1::2], strict=True))
                for (name, _), session in zip(listed, await self._peek(scope, [n for n, _ in listed]), strict=True):
                    if session is not None and len(found) <= limit:
                        found.append(decode_session(SessionId(name.decode()), scope.user, session))
                if len(found) > limit or len(listed) <= limit:
                    break
                before = (listed[-1][1].decode(), listed[-1][0].decode())
        if len(found) <= limit:
            return Page(tuple(found))
        last = found[limit - 1]
        position = f"sessions:{micros(last.created_at, 'created_at')}:{last.id}"
        return Page(tuple(found[:limit]), encode_cursor(scope, position))

    async def _peek(self, scope: Scope, names: Sequence[bytes]) -> list[Any]:
        if not names:
            return []
        return await self._client.run(*(Call("peek", _keys_of(scope, name)) for name in names), repeat=True)

    async def drop(self, scope: Scope) -> bool:
        drop = Call("drop", session_keys(scope))
        async with self._client.deadline():
            existed, _ = await self._client.run(drop, Call("list_take", listing_keys(scope), (scope.session,)))
        return bool(existed)

    async def forget_user(self, scope: Scope, fence_s: float = 0) -> int:
        return await forget_sessions(self._client, scope, fence_s)

    async def count_user(self, scope: Scope) -> int:
        return await count_sessions(self._client, scope)

    async def forget_tenant(self, scope: Scope, fence_s: float = 0) -> int:
        return await forget_tenant(self._client, scope, fence_s)

    async def count_tenant(self, scope: Scope) -> int:
        return await count_tenant(self._client, scope)

    async def lift_fence(self, scope: Scope) -> None:
        await lift_fence(self._client, scope)

    # --- turns

    async def append(self, scope: Scope, turns: Sequence[NewTurn], max_turns: int) -> tuple[Turn, ...]:
        args: list[str | bytes | int] = [max_turns]
        for place, turn in enumerate(turns):
            args += (
                checked_id(turn.id, f"turns.{place}.id"),
                int(turn.role is Role.USER),
                encode_turn(turn, f"turns.{place}"),
            )
        # May be repeated: a turn that did get in is known by its id (P34).
        reply = await self._use(scope, "append", *args, repeat=True)
        if reply == b"full":
            raise Conflict(f"turns: a session holds at most {max_turns}; open a new session.")
        return tuple(
            decode_turn(turn.id.encode(), int(place[0]), place[1])
            if isinstance(place, list)
            else accepted(turn, turn.id, place)
            for turn, place in zip(turns, reply, strict=True)
        )

    async def turns(self, scope: Scope, limit: int, cursor: str | None) -> Page[Turn]:
        _check_limit(limit)
        after = _turns_place(scope, cursor)
        found = decode_turns(await self._use(scope, "turns", after, limit + 1, repeat=True))
        if len(found) <= limit:
            return Page(tuple(found))
        return Page(tuple(found[:limit]), encode_cursor(scope, f"turns:{found[limit - 1].seq}"))

    async def peek(self, scope: Scope, turn_ids: Sequence[TurnId]) -> tuple[Turn, ...]:
        """Those of the turns that are still kept, oldest first. A worker's look: nothing is renewed."""
        wanted = list(dict.fromkeys(turn_ids))[:_MAX_PAGE]
        if not wanted:
            return ()
        async with self._client.deadline():
            (reply,) = await self._client.run(Call("read_turns", session_keys(scope), wanted), repeat=True)
        if reply is None:
            raise NotFound("session")
        return tuple(sorted(decode_turns(reply), key=lambda turn: turn.seq))

    async def load(self, scope: Scope, last_turns: int, due: Due | None = None) -> SessionSnapshot:
        """Of a session that is not there the request is counted all the same."""
        calls = [Call("load", session_keys(scope), (last_turns,))]
        if due is not None and not due.taken:
            due.taken = True
            calls.append(counting(scope, due.per_minute))
        async with self._client.deadline():
            # A lost connection may count it twice: rather that than a read that fails.
            _, reply, *counted = await self._client.run(self._touch(scope), *calls, repeat=True)
        for answer in counted:
            check(answer)
        if reply is None:
            raise NotFound("session")
        session, turns, (state, version, preloaded) = reply
        return SessionSnapshot(
            session=decode_session(scope.session, scope.user, session),
            turns=tuple(reversed(decode_transcript(turns))),
            state=decode_state(state, version),
            preloaded=tuple(MemoryId(memory) for memory in decode_ids(preloaded)),
        )

    async def replace_turn(self, scope: Scope, turn_id: TurnId, turn: NewTurn) -> ReplacedTurns:
        body = encode_turn(turn, "turn")
        asked = int(turn.role is Role.USER)
        reply = await self._use(scope, "replace", checked_id(turn_id, "turn_id"), asked, body)
        removed = _removed(reply)
        return ReplacedTurns(removed, accepted(turn, turn_id, removed[0].seq))

    async def remove_turn(self, scope: Scope, turn_id: TurnId | None) -> ReplacedTurns:
        named = "" if turn_id is None else checked_id(turn_id, "turn_id")
        return ReplacedTurns(_removed(await self._use(scope, "remove", named)))

    # --- state

    async def state(self, scope: Scope) -> TaskState:
        return decode_state(*await self._use(scope, "state", repeat=True))

    async def put_state(self, scope: Scope, state: TaskState, expected_version: int) -> TaskState:
        body = encode_state(state)
        accepted_now, version = await self._use(scope, "put_state", expected_version, body)
        if not accepted_now:
            raise Conflict("state: changed meanwhile; read it again and patch its current version.", version)
        return decode_state(body, str(version).encode())

    async def set_preloaded(self, scope: Scope, ids: Sequence[MemoryId]) -> None:
        await self._use(scope, "preload", dumped(list(ids), "preloaded"), repeat=True)

    async def ping(self) -> None:
        """For readiness alone: liveness asks no store (P40)."""
        await self._client.ping()

    async def _use(self, scope: Scope, script: str, *args: str | bytes | int, repeat: bool = False) -> Any:
        """Run a script of the session and put off the expiry of its place in the list, in one round trip. The place first: it
        must never die before its session."""
        async with self._client.deadline():
            _, reply = await self._client.run(
                self._touch(scope), Call(script, session_keys(scope), args), repeat=repeat
            )
        if reply is None:
            raise NotFound("session")
        return reply

    def _touch(self, scope: Scope) -> Call:
        return Call("list_touch", listing_keys(scope), (scope.session,))


def _keys_of(scope: Scope, name: bytes) -> tuple[str, ...]:
    """The keys of another session of the same user, whichever session the scope itself is narrowed to."""
    return session_keys(Scope(scope.tenant_id, scope.user, SessionId(name.decode())))


def _being_erased() -> Conflict:
    return Conflict("session: its user's sessions are being removed; open it again later.")


def _removed(reply: Any) -> tuple[Turn, ...]:
    if reply == b"absent":
        raise NotFound("turn")
    return tuple(decode_turns(reply))


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= _MAX_PAGE:
        raise InvalidInput("limit", f"use 1 to {_MAX_PAGE}")


def _turns_place(scope: Scope, cursor: str | None) -> int:
    if cursor is None:
        return 0
    place = position_after("turns", scope, cursor)
    if not place.isascii() or not place.isdigit() or len(place) > 15:
        raise bad_cursor()
    return int(place)


def _sessions_place(scope: Scope, cursor: str | None) -> tuple[str, str]:
    if cursor is None:
        return ("", "")
    created, _, name = position_after("sessions", scope, cursor).partition(":")
    if not created.isascii() or not created.isdigit() or len(created) > 16:
        raise bad_cursor()
    try:
        return (created, checked_id(name, "cursor"))
    except InvalidInput:
        raise bad_cursor() from None
