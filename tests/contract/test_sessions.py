"""What every session store promises. Here: the life of a session, and whose it is."""

import dataclasses
from datetime import timedelta

import pytest

from memory.errors import Conflict, InvalidInput, NotFound
from memory.turns import Role, TaskState
from tests.contract.session_backends import NOON, aged, contents, gone, kept, now, opened, scope, session_of, turn

# --- a session's life -------------------------------------------------------------------------------------------------


async def test_a_session_is_opened_found_and_dropped(sessions, tenant):
    me = scope(tenant)
    about = {"time_zone": "Asia/Shanghai", "language": "zh", "metadata": {"渠道": "网页", "n": [1, None, True]}}
    made = await sessions.open(me, session_of(me, **about), 60, 100)
    assert (made.id, made.user_id, made.turn_count) == ("s1", "alice", 0)
    assert (made.time_zone, made.language, made.metadata) == ("Asia/Shanghai", "zh", about["metadata"])
    assert made.created_at == NOON and made.created_at.utcoffset() == timedelta(0)
    assert abs(made.expires_at - (now() + timedelta(seconds=60))) < timedelta(seconds=15)
    found = await sessions.get(me)
    assert dataclasses.replace(found, expires_at=made.expires_at) == made
    assert await sessions.drop(me) is True
    assert await sessions.drop(me) is False
    for call in (sessions.get(me), sessions.load(me, 5), sessions.turns(me, 5, None), sessions.state(me)):
        with pytest.raises(NotFound, match="session"):
            await call


async def test_opening_again_answers_the_session_as_it_is(sessions, tenant):
    me = await opened(sessions, scope(tenant), ttl_s=60)
    await sessions.append(me, [turn("a")], 10)
    again = await sessions.open(me, session_of(me, NOON + timedelta(days=1), language="en"), 3600, 100)
    assert (again.turn_count, again.created_at, again.language) == (1, NOON, None)
    assert again.expires_at < now() + timedelta(seconds=90)  # its own TTL, not the newcomer's


async def test_a_dropped_session_leaves_nothing_for_the_next_of_its_name(sessions, tenant):
    me = await opened(sessions, scope(tenant))
    await sessions.append(me, [turn("a")], 10)
    await sessions.put_state(me, TaskState(intent="buy"), 0)
    await sessions.set_preloaded(me, ["m1"])
    await sessions.drop(me)
    await opened(sessions, me)
    snapshot = await sessions.load(me, 10)
    assert (snapshot.turns, snapshot.state, snapshot.preloaded) == ((), TaskState(), ())
    assert (await sessions.append(me, [turn("a")], 10))[0].seq == 1


async def test_a_foreign_drop_touches_nothing(sessions, tenant):
    me = await opened(sessions, scope(tenant))
    assert await sessions.drop(scope(tenant, "bob")) is False
    assert (await sessions.get(me)).id == "s1"
    assert await sessions.owner(scope(tenant, None)) == "alice"


async def test_a_session_expires_by_itself(sessions, session_client, tenant):
    me = await opened(sessions, scope(tenant), ttl_s=60)
    await sessions.append(me, [turn("a")], 10)
    await aged(session_client, tenant, 1)
    await gone(session_client, f"strata:session:{{{tenant}:*")
    with pytest.raises(NotFound):
        await sessions.get(me)
    with pytest.raises(NotFound):
        await sessions.owner(scope(tenant, None))
    assert (await sessions.page(scope(tenant, "alice", None), 10, None)).items == ()
    await opened(sessions, scope(tenant, "bob"))  # the id is free again, for anybody
    assert (await sessions.load(scope(tenant, "bob"), 10)).turns == ()


USES = {
    "get": lambda s, me: s.get(me),
    "append": lambda s, me: s.append(me, [turn("later")], 100),
    "append nothing": lambda s, me: s.append(me, [], 100),
    "append a retry": lambda s, me: s.append(me, [turn("first")], 100),
    "append too many": lambda s, me: s.append(me, [turn("later")], 1),
    "turns": lambda s, me: s.turns(me, 10, None),
    "load": lambda s, me: s.load(me, 10),
    "replace": lambda s, me: s.replace_turn(me, "first", turn("first", "edited")),
    "replace nothing": lambda s, me: s.replace_turn(me, "none", turn("none")),
    "remove": lambda s, me: s.remove_turn(me, "second"),
    "remove last": lambda s, me: s.remove_turn(me, None),
    "remove nothing": lambda s, me: s.remove_turn(me, "none"),
    "state": lambda s, me: s.state(me),
    "put_state": lambda s, me: s.put_state(me, TaskState(intent="x"), 1),
    "put_state, too late": lambda s, me: s.put_state(me, TaskState(intent="x"), 7),
    "preloaded": lambda s, me: s.set_preloaded(me, ["m2"]),
    "open": lambda s, me: s.open(me, session_of(me), 60, 100),
}


@pytest.mark.parametrize("use", USES)
async def test_every_use_renews_the_whole_session(sessions, session_client, tenant, use):
    """T1: a session in use lives on, with all of its parts and its place in the list, as long again as when it was opened."""
    me = await opened(sessions, scope(tenant), ttl_s=60)
    await sessions.append(me, [turn("first"), turn("second")], 10)
    await sessions.put_state(me, TaskState(intent="buy"), 0)
    await sessions.set_preloaded(me, ["m1"])
    await aged(session_client, tenant, 20_000)
    try:
        await USES[use](sessions, me)
    except (Conflict, NotFound) as error:
        assert error.what != "session"
    lives = await kept(session_client, f"strata:session*:{{{tenant}:*")
    assert len(lives) >= 7 and all(40_000 < ms <= 61_100 for ms in lives.values()), lives
    snapshot = await sessions.load(me, 10)
    assert snapshot.state.intent in ("buy", "x") and snapshot.preloaded in (("m1",), ("m2",))
    if not use.startswith(("replace", "remove")):
        assert [t.id for t in snapshot.turns][:2] == ["first", "second"]


async def test_no_key_of_a_session_or_a_list_is_left_without_an_end(sessions, session_client, tenant):
    me = await opened(sessions, scope(tenant), ttl_s=50)
    await sessions.append(me, [turn("a"), turn("b", role=Role.ASSISTANT)], 10)
    await sessions.replace_turn(me, "a", turn("a", "edited"))
    await sessions.put_state(me, TaskState(intent="x"), 0)
    await sessions.set_preloaded(me, ["m1"])
    left = await kept(session_client, f"strata:*{tenant}*")
    assert len(left) == 8
    assert all(40_000 < ms <= 51_100 for ms in left.values()), left
    # one slot for the session, one for the list: scripts of each run in a cluster too
    assert {key.split("{")[1].split("}")[0] for key in left} == {f"{tenant}:s1", f"{tenant}:alice"}
    await sessions.drop(me)
    assert await kept(session_client, f"strata:*{tenant}*") == {}


# --- whose it is ------------------------------------------------------------------------------------------------------

LOOK_ALIKES = ["Alice", "alice_", "alice-", "ALICE", "alic", "alicee", "_alice", "A1ice"]


def every_call(store, me):
    return [
        store.get(me),
        store.append(me, [turn("x")], 10),
        store.append(me, [], 10),
        store.turns(me, 10, None),
        store.load(me, 10),
        store.peek(me, ["a"]),
        store.replace_turn(me, "a", turn("a")),
        store.remove_turn(me, "a"),
        store.remove_turn(me, None),
        store.state(me),
        store.put_state(me, TaskState(intent="x"), 0),
        store.set_preloaded(me, ["m"]),
    ]


async def refused(store, me):
    for call in every_call(store, me):
        with pytest.raises(NotFound) as error:
            await call
        assert error.value.what == "session"


async def test_p23_a_session_of_another_user_or_tenant_is_not_found(sessions, tenant):
    me = await opened(sessions, scope(tenant))
    await sessions.append(me, [turn("a", "我的秘密")], 10)
    await refused(sessions, scope(tenant, "bob"))
    await refused(sessions, scope(tenant + "x", "alice"))
    await refused(sessions, scope(tenant, "alice", "s2"))
    snapshot = await sessions.load(me, 10)
    assert contents(snapshot.turns) == ["我的秘密"]
    assert (snapshot.state, snapshot.preloaded) == (TaskState(), ())


@pytest.mark.parametrize("user", LOOK_ALIKES)
async def test_p24_lookalike_user_ids_are_other_users(sessions, tenant, user):
    me = await opened(sessions, scope(tenant))
    await refused(sessions, scope(tenant, user))
    assert (await sessions.page(scope(tenant, user, None), 10, None)).items == ()
    assert await sessions.forget_user(scope(tenant, user)) == 0
    theirs = await opened(sessions, scope(tenant, user, "s9"))
    await sessions.append(theirs, [turn("a", "theirs")], 10)
    assert (await sessions.load(me, 10)).turns == ()


@pytest.mark.parametrize("session", ["S1", "s1_", "s", "s11", "s-1"])
async def test_p24_lookalike_session_ids_are_other_sessions(sessions, tenant, session):
    await opened(sessions, scope(tenant))
    await refused(sessions, scope(tenant, "alice", session))


@pytest.mark.parametrize("bad", ["alice ", " alice", "alice@x", "a}:{b", "a:b", "alice\n", "", "用户", "a" * 65, "*"])
async def test_p24_ids_that_could_break_out_of_a_key_are_refused(sessions, tenant, bad):
    for unsafe in (scope(tenant, bad), scope(tenant, "alice", bad), scope(bad, "alice")):
        with pytest.raises(InvalidInput) as error:
            await sessions.open(unsafe, session_of(unsafe), 60, 10)
        assert error.value.field in ("tenant_id", "user_id", "session_id")
        with pytest.raises(InvalidInput):
            await sessions.load(unsafe, 1)


async def test_p20_a_scope_without_user_or_session_reaches_nothing(sessions, tenant):
    await opened(sessions, scope(tenant))
    for missing in (scope(tenant, None), scope(tenant, "alice", None), scope(tenant, None, None)):
        for call in every_call(sessions, missing):
            with pytest.raises(NotFound):
                await call
    for call in (sessions.page(scope(tenant, None), 10, None), sessions.forget_user(scope(tenant, None))):
        with pytest.raises(NotFound, match="user"):
            await call


async def test_p22_empty_lists_change_nothing(sessions, tenant):
    me = await opened(sessions, scope(tenant))
    await sessions.append(me, [turn("a")], 10)
    assert await sessions.append(me, [], 10) == ()
    await sessions.set_preloaded(me, ["m1"])
    await sessions.set_preloaded(me, [])
    snapshot = await sessions.load(me, 0)
    assert (snapshot.turns, snapshot.preloaded, snapshot.session.turn_count) == ((), (), 1)


async def test_a_tenant_key_finds_the_user_of_a_session(sessions, tenant):
    await opened(sessions, scope(tenant))
    assert await sessions.owner(scope(tenant, None)) == "alice"
    assert await sessions.owner(scope(tenant, "alice")) == "alice"
    for other in (
        scope(tenant, "Alice"),
        scope(tenant, None, "s2"),
        scope(tenant + "x", None),
        scope(tenant, None, None),
    ):
        with pytest.raises(NotFound, match="session"):
            await sessions.owner(other)


async def test_an_id_in_use_by_another_user_is_a_conflict_that_does_not_say_by_whom(sessions, tenant):
    await opened(sessions, scope(tenant))
    bob = scope(tenant, "bob")
    with pytest.raises(Conflict) as error:
        await sessions.open(bob, session_of(bob), 60, 1)
    assert "session_id" in error.value.detail and "choose another" in error.value.detail
    assert "alice" not in error.value.detail and "user" not in error.value.detail
    await opened(sessions, scope(tenant, "bob", "s2"), limit=1)  # the failed one took none of bob's places
    assert [s.id for s in (await sessions.page(bob, 10, None)).items] == ["s2"]


async def test_the_same_session_id_in_two_tenants_is_two_sessions(sessions, tenant):
    one, two = await opened(sessions, scope(tenant)), await opened(sessions, scope(tenant + "x"))
    await sessions.append(one, [turn("a", "one")], 10)
    await sessions.append(two, [turn("a", "two")], 10)
    assert contents((await sessions.load(one, 5)).turns) == ["one"]
    assert contents((await sessions.load(two, 5)).turns) == ["two"]
