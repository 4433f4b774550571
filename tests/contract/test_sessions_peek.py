"""What every session store promises. Here: a worker's look at turns, which is no use of the session."""

import pytest

from memory.errors import NotFound
from memory.ids import TurnId
from tests.contract.session_backends import aged, contents, kept, opened, scope, turn


async def test_a_worker_sees_the_turns_that_are_still_kept(sessions, tenant):
    me = await opened(sessions, scope(tenant))
    await sessions.append(me, [turn("t1", "一"), turn("t2", "two"), turn("t3", "三")], 100)
    await sessions.remove_turn(me, TurnId("t2"))
    wanted = [TurnId("t3"), TurnId("t1"), TurnId("t2"), TurnId("t1"), TurnId("never")]
    assert contents(await sessions.peek(me, wanted)) == ["一", "三"]
    assert await sessions.peek(me, []) == ()


async def test_p23_a_worker_of_another_user_sees_nothing(sessions, tenant):
    me = await opened(sessions, scope(tenant))
    await sessions.append(me, [turn("t1", "mine")], 100)
    for other in (scope(tenant, "Alice"), scope(tenant, "bob"), scope(f"{tenant}x")):
        with pytest.raises(NotFound):
            await sessions.peek(other, [TurnId("t1")])


async def test_t1_looking_renews_nothing(sessions, session_client, tenant):
    me = await opened(sessions, scope(tenant), ttl_s=600)
    await sessions.append(me, [turn("t1")], 100)
    await aged(session_client, tenant, 60_000)
    assert len(await sessions.peek(me, [TurnId("t1")])) == 1
    assert all(ms <= 60_000 for ms in (await kept(session_client, f"strata:session*:{{{tenant}:*")).values())
