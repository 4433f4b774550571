"""What every session store promises. Here: turns as they are appended and read."""

import asyncio
import dataclasses
from datetime import UTC, datetime, timedelta

import pytest

from memory.errors import Conflict, InvalidInput, NotFound
from memory.turns import MemoryMode, Role, ToolCall
from tests.contract.session_backends import contents, opened, scope, talk, turn

EVERY_FIELD = [
    turn("u1", '帮我订一张去北京的票 🎫\n\t"引号"'),
    turn(
        "a1",
        "",
        Role.ASSISTANT,
        tool_calls=(ToolCall("c1", "find", '{"to":"北京"}'), ToolCall("c2", "now", "")),
        name="bot",
    ),
    turn("t1", '{"ok": true}', Role.TOOL, tool_call_id="c1", name="find"),
    turn("s1", "System line", Role.SYSTEM, memory=MemoryMode.OFF),
    turn("d1", "Developer line", Role.DEVELOPER, memory=MemoryMode.READ),
    turn("a2", "stopped in mid-", Role.ASSISTANT, complete=False),
    turn("e1", "e\u0301 👩‍👩‍👧 \u200d\ufeff", Role.USER),
    turn("z1", "x" * 1_000_000),
]


async def test_turns_come_back_as_they_were_accepted(sessions, tenant):
    me = await opened(sessions, scope(tenant))
    stored = await sessions.append(me, EVERY_FIELD, 100)
    for place, (given, kept) in enumerate(zip(EVERY_FIELD, stored, strict=True), start=1):
        assert kept.seq == place
        for field in dataclasses.fields(given):
            assert getattr(kept, field.name) == getattr(given, field.name), field.name
        assert kept.at.utcoffset() == timedelta(0)
    assert (await sessions.load(me, 100)).turns == stored
    assert (await sessions.turns(me, 100, None)).items == stored
    assert await sessions.append(me, EVERY_FIELD, 100) == stored  # a retry, answered from what is stored


async def test_the_newest_turns_are_loaded_oldest_first(sessions, tenant):
    me = await opened(sessions, scope(tenant))
    await sessions.append(me, [turn(f"t{n}", str(n)) for n in range(30)], 100)
    assert contents((await sessions.load(me, 3)).turns) == ["27", "28", "29"]
    assert len((await sessions.load(me, 200)).turns) == 30
    assert (await sessions.load(me, 3)).session.turn_count == 30


async def test_the_transcript_is_paged_oldest_first(sessions, tenant):
    me = await opened(sessions, scope(tenant))
    await sessions.append(me, [turn(f"t{n}", str(n)) for n in range(7)], 100)
    seen, cursor = [], None
    for size in (3, 3, 1):
        page = await sessions.turns(me, 3, cursor)
        assert len(page.items) == size
        seen += contents(page.items)
        cursor = page.next_cursor
    assert cursor is None and seen == list("0123456")
    first = await sessions.turns(me, 3, None)
    await sessions.append(me, [turn("new", "new")], 100)  # what is said meanwhile comes at the end
    rest = await sessions.turns(me, 100, first.next_cursor)
    assert contents(rest.items) == ["3", "4", "5", "6", "new"]


@pytest.mark.parametrize("limit", [0, -1, 1001])
async def test_a_wrong_limit_is_named(sessions, tenant, limit):
    me = await opened(sessions, scope(tenant))
    for call in (sessions.turns(me, limit, None), sessions.page(me, limit, None)):
        with pytest.raises(InvalidInput, match="limit"):
            await call


async def test_p20_a_cursor_of_another_caller_or_listing_is_refused(sessions, tenant):
    me, other = await opened(sessions, scope(tenant)), await opened(sessions, scope(tenant, "bob", "s2"))
    mine = await opened(sessions, scope(tenant, "alice", "s3"))
    for one in (me, other, mine):
        await sessions.append(one, [turn(f"t{n}") for n in range(5)], 10)
    cursor = (await sessions.turns(me, 2, None)).next_cursor
    listing = (await sessions.page(me, 1, None)).next_cursor
    wrong = [
        sessions.turns(other, 2, cursor),
        sessions.turns(mine, 2, cursor),
        sessions.page(other, 2, listing),
        sessions.page(me, 2, cursor),
        sessions.turns(me, 2, listing),
        sessions.turns(me, 2, "x"),
        sessions.page(me, 2, ""),
    ]
    for call in wrong:
        with pytest.raises(InvalidInput) as error:
            await call
        assert error.value.field == "cursor"


async def test_p35_concurrent_writers_lose_nothing_and_keep_their_own_order(sessions, tenant):
    me = await opened(sessions, scope(tenant))

    async def write(writer):
        seqs = []
        for n in range(20):
            question, answer = await sessions.append(
                me, [turn(f"w{writer}q{n}", f"{writer}:{n}"), turn(f"w{writer}a{n}", "ok", Role.ASSISTANT)], 5000
            )
            assert answer.seq == question.seq + 1  # what came in one call stays together
            seqs.append(question.seq)
        return seqs

    by_writer = await asyncio.gather(*(write(w) for w in range(25)))
    assert all(seqs == sorted(seqs) for seqs in by_writer)
    stored = []
    cursor = None
    while True:
        page = await sessions.turns(me, 300, cursor)
        stored += page.items
        if (cursor := page.next_cursor) is None:
            break
    assert [t.seq for t in stored] == list(range(1, 1001))
    assert len({t.id for t in stored}) == 1000
    assert (await sessions.get(me)).turn_count == 1000


async def test_p35_order_is_acceptance_whatever_the_clocks_say(sessions, tenant):
    me = await opened(sessions, scope(tenant))
    later = datetime(2030, 1, 1, tzinfo=UTC)
    given = [
        dataclasses.replace(turn("q", "question"), at=later),
        dataclasses.replace(turn("a", "answer", Role.ASSISTANT), at=later),  # of the same instant
        dataclasses.replace(turn("p", "earlier by the clock"), at=later - timedelta(days=900)),
    ]
    await sessions.append(me, given, 10)
    assert [t.id for t in (await sessions.load(me, 10)).turns] == ["q", "a", "p"]


async def test_p34_a_retry_stores_nothing_twice(sessions, tenant):
    me = await opened(sessions, scope(tenant))
    call = [turn("a", "one"), turn("b", "two")]
    first = await sessions.append(me, call, 10)
    assert await sessions.append(me, call, 10) == first
    more = await sessions.append(
        me, [turn("b", "two"), turn("c", "three")], 10
    )  # the old one is in the middle of a new call
    assert [(t.id, t.seq) for t in more] == [("b", 2), ("c", 3)]
    assert contents((await sessions.load(me, 10)).turns) == ["one", "two", "three"]
    (kept,) = await sessions.append(me, [turn("a", "other words")], 10)
    assert kept.content == "one"
    twice = await sessions.append(me, [turn("d", "four"), turn("d", "four")], 10)
    assert [t.seq for t in twice] == [4, 4]


async def test_p34_concurrent_retries_store_once(sessions, tenant):
    me = await opened(sessions, scope(tenant))
    call = [turn(f"t{n}", str(n)) for n in range(10)]
    answers = await asyncio.gather(*(sessions.append(me, call, 10) for _ in range(20)))
    assert len(set(answers)) == 1
    assert (await sessions.get(me)).turn_count == 10


async def test_p34_turns_equal_on_purpose_are_two(sessions, tenant):
    me = await opened(sessions, scope(tenant))
    await sessions.append(me, [turn("a", "好的"), turn("b", "好的")], 10)
    await sessions.append(me, [turn("c", "好的")], 10)
    assert contents((await sessions.load(me, 10)).turns) == ["好的"] * 3


async def test_too_many_turns_are_refused_all_or_none(sessions, tenant):
    me = await opened(sessions, scope(tenant))
    await sessions.append(me, [turn("a"), turn("b")], 3)
    with pytest.raises(Conflict) as error:
        await sessions.append(me, [turn("c"), turn("d")], 3)
    assert "3" in error.value.detail and "new session" in error.value.detail
    assert (await sessions.get(me)).turn_count == 2
    await sessions.append(me, [turn("a"), turn("c")], 3)  # only one of these is new
    assert [t.seq for t in await sessions.append(me, [turn("a"), turn("b"), turn("c")], 1)] == [
        1,
        2,
        3,
    ]  # a retry never fails
    with pytest.raises(Conflict):
        await sessions.append(me, [turn("d")], 3)


BAD_TURNS = [
    (turn("ok", "lone \ud800 surrogate"), "turns.1.content"),
    (dataclasses.replace(turn("ok"), at=datetime(2026, 1, 1)), "turns.1.at"),
    (turn("not an id"), "turns.1.id"),
    (turn(""), "turns.1.id"),
]


@pytest.mark.parametrize(("bad", "field"), BAD_TURNS)
async def test_a_bad_turn_stores_nothing_of_its_call(sessions, tenant, bad, field):
    me = await opened(sessions, scope(tenant))
    with pytest.raises(InvalidInput) as error:
        await sessions.append(me, [turn("good"), bad], 10)
    assert error.value.field == field
    assert (await sessions.get(me)).turn_count == 0


async def test_a_worker_looks_at_turns_that_are_still_kept(sessions, tenant):
    me = await opened(sessions, scope(tenant))
    before = await talk(sessions, me)
    assert await sessions.peek(me, ["t4", "t1", "none", "t1", "T1"]) == (before[1], before[4])
    await sessions.remove_turn(me, "t1")
    assert await sessions.peek(me, ["t4", "t1"]) == (before[4],)
    assert await sessions.peek(me, []) == ()
    for other in (scope(tenant, "bob"), scope(tenant, "alice", "s2"), scope(tenant + "x")):
        with pytest.raises(NotFound, match="session"):
            await sessions.peek(other, ["t4"])
