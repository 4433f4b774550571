"""What every session store promises. Here: turns edited and taken back, and the state of the task."""

import asyncio
import dataclasses
from datetime import timedelta

import pytest

from memory.errors import Conflict, InvalidInput, NotFound
from memory.turns import MemoryMode, Role, TaskState
from tests.contract.session_backends import NOON, contents, opened, scope, talk, turn

# --- edits ------------------------------------------------------------------------------------------------------------


async def test_p31_an_edited_turn_takes_what_followed_it(sessions, tenant):
    me = await opened(sessions, scope(tenant))
    before = await talk(sessions, me)
    edit = turn("ignored", "new wording", memory=MemoryMode.OFF)
    replaced = await sessions.replace_turn(me, "t2", edit)
    assert replaced.removed == before[2:]
    assert (replaced.turn.id, replaced.turn.seq, replaced.turn.content) == ("t2", 3, "new wording")
    snapshot = await sessions.load(me, 100)
    assert snapshot.turns == (*before[:2], replaced.turn)
    assert snapshot.session.turn_count == 3
    (after,) = await sessions.append(me, [turn("t9", "and on")], 100)
    assert after.seq > 6  # a seq is never given twice: a cursor or a note of it stays true
    assert contents((await sessions.turns(me, 10, None)).items) == ["line 0", "line 1", "new wording", "and on"]
    # a turn that went may come back as a new one, under its old id
    assert (await sessions.append(me, [turn("t4", "again")], 100))[0].content == "again"


async def test_p31_a_regenerated_answer_replaces_the_last_turn_alone(sessions, tenant):
    me = await opened(sessions, scope(tenant))
    before = await talk(sessions, me, 2)
    replaced = await sessions.replace_turn(me, "t1", turn("t1", "better", Role.ASSISTANT))
    assert replaced.removed == before[1:]
    assert contents((await sessions.load(me, 9)).turns) == ["line 0", "better"]


async def test_p31_editing_and_appending_at_once_never_mix(sessions, tenant):
    """After an edit nothing of what it took is there; a turn accepted later than the edit stays."""
    me = await opened(sessions, scope(tenant))
    await talk(sessions, me)

    async def append(n):
        return (await sessions.append(me, [turn(f"x{n}", str(n))], 500))[0]

    async def edit(n):
        return await sessions.replace_turn(me, "t2", turn("t2", f"edit {n}"))

    results = await asyncio.gather(*(edit(n) if n % 5 == 0 else append(n) for n in range(50)))
    left = {t.id: t for t in (await sessions.load(me, 500)).turns}
    removed = [t.id for r in results if hasattr(r, "removed") for t in r.removed if t.id.startswith("x")]
    appended = [r.id for r in results if not hasattr(r, "removed")]
    assert len(removed) == len(set(removed))
    assert sorted(removed + [i for i in left if i.startswith("x")]) == sorted(appended)
    assert len((await sessions.turns(me, 1000, None)).items) == (await sessions.get(me)).turn_count == len(left)


async def test_one_turn_is_removed_alone(sessions, tenant):
    me = await opened(sessions, scope(tenant))
    before = await talk(sessions, me)
    taken = await sessions.remove_turn(me, "t2")
    assert (taken.removed, taken.turn) == ((before[2],), None)
    assert (await sessions.load(me, 9)).turns == before[:2] + before[3:]
    with pytest.raises(NotFound, match="turn"):
        await sessions.remove_turn(me, "t2")


async def test_forget_last_takes_the_last_user_turn_and_what_followed(sessions, tenant):
    """W7."""
    me = await opened(sessions, scope(tenant))
    before = await talk(sessions, me, 4)
    tools = await sessions.append(
        me, [turn("x", "", Role.TOOL, tool_call_id="c"), turn("y", "fin", Role.ASSISTANT)], 100
    )
    assert (await sessions.remove_turn(me, None)).removed == before[2:] + tools
    assert (await sessions.remove_turn(me, None)).removed == before[:2]
    with pytest.raises(NotFound, match="turn"):
        await sessions.remove_turn(me, None)
    await sessions.append(me, [turn("n", "no user here", Role.ASSISTANT)], 100)
    with pytest.raises(NotFound, match="turn"):
        await sessions.remove_turn(me, None)
    assert (await sessions.get(me)).turn_count == 1


async def test_forget_last_knows_roles_that_an_edit_changed(sessions, tenant):
    me = await opened(sessions, scope(tenant))
    await talk(sessions, me, 4)
    await sessions.replace_turn(me, "t2", turn("t2", "no question any more", Role.ASSISTANT))
    assert [t.id for t in (await sessions.remove_turn(me, None)).removed] == ["t0", "t1", "t2"]


@pytest.mark.parametrize("missing", ["none", "T1", "t1_"])
async def test_an_edit_of_a_turn_that_is_not_there_changes_nothing(sessions, tenant, missing):
    me = await opened(sessions, scope(tenant))
    before = await talk(sessions, me)
    for call in (sessions.replace_turn(me, missing, turn("t1", "x")), sessions.remove_turn(me, missing)):
        with pytest.raises(NotFound, match="turn"):
            await call
    assert (await sessions.load(me, 9)).turns == before


async def test_a_turn_of_another_session_cannot_be_edited(sessions, tenant):
    mine, theirs = await opened(sessions, scope(tenant)), await opened(sessions, scope(tenant, "bob", "s2"))
    await sessions.append(theirs, [turn("secret", "theirs")], 10)
    with pytest.raises(NotFound, match="turn"):
        await sessions.replace_turn(mine, "secret", turn("secret", "mine"))
    assert contents((await sessions.load(theirs, 5)).turns) == ["theirs"]


# --- state ------------------------------------------------------------------------------------------------------------

FULL = TaskState(
    intent="订票",
    slots={"目的地": "北京", "人数": 2, "nested": {"a": [1, 2.5, None, True]}},
    missing=("日期",),
    results={"order": "A-17"},
)


async def test_state_is_compare_and_set(sessions, tenant):
    me = await opened(sessions, scope(tenant))
    assert await sessions.state(me) == TaskState()
    first = await sessions.put_state(me, FULL, 0)
    assert first == dataclasses.replace(FULL, version=1)
    assert await sessions.state(me) == first
    for stale in (0, 2, -1):
        with pytest.raises(Conflict) as error:
            await sessions.put_state(me, TaskState(intent="other"), stale)
        assert error.value.version == 1
    assert await sessions.state(me) == first
    second = await sessions.put_state(me, TaskState(), 1)
    assert second == TaskState(version=2) == (await sessions.load(me, 1)).state


async def test_of_many_writers_of_one_version_one_wins(sessions, tenant):
    me = await opened(sessions, scope(tenant))
    results = await asyncio.gather(
        *(sessions.put_state(me, TaskState(intent=f"w{n}"), 0) for n in range(30)), return_exceptions=True
    )
    (winner,) = [r for r in results if isinstance(r, TaskState)]
    assert sum(isinstance(r, Conflict) for r in results) == 29
    assert await sessions.state(me) == winner


async def test_counting_by_compare_and_set_loses_no_step(sessions, tenant):
    me = await opened(sessions, scope(tenant))

    async def add():
        for _ in range(10):
            while True:
                held = await sessions.state(me)
                try:
                    await sessions.put_state(me, TaskState(slots={"n": held.slots.get("n", 0) + 1}), held.version)
                    break
                except Conflict:
                    continue

    await asyncio.gather(*(add() for _ in range(5)))
    assert (await sessions.state(me)).slots == {"n": 50}


@pytest.mark.parametrize(
    "state",
    [TaskState(intent="\ud800"), TaskState(slots={"n": 2**70}), TaskState(results={1: "x"})],  # type: ignore[dict-item]
)
async def test_a_state_that_json_cannot_hold_is_refused(sessions, tenant, state):
    me = await opened(sessions, scope(tenant))
    with pytest.raises(InvalidInput, match="state"):
        await sessions.put_state(me, state, 0)
    assert await sessions.state(me) == TaskState()


async def test_preloaded_memories_travel_with_the_snapshot(sessions, tenant):
    """T5."""
    me = await opened(sessions, scope(tenant))
    await sessions.set_preloaded(me, ["m_1", "m_2"])
    assert (await sessions.load(me, 1)).preloaded == ("m_1", "m_2")


async def test_a_scope_narrowed_to_one_session_still_lists_all_of_its_user(sessions, tenant):
    me = await opened(sessions, scope(tenant))
    await opened(sessions, scope(tenant, "alice", "s2"), at=NOON + timedelta(seconds=1))
    assert [s.id for s in (await sessions.page(me, 10, None)).items] == ["s2", "s1"]
    assert await sessions.forget_user(me) == 2
