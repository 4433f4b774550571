"""What every session store promises. Here: a user's list of sessions, and forgetting all of it."""

import asyncio
from datetime import timedelta

import pytest

from memory.errors import Conflict, NotFound, Overloaded
from tests.contract.session_backends import NOON, aged, kept, now, opened, scope


async def test_the_list_is_newest_first_and_paged(sessions, tenant):
    user = scope(tenant, "alice", None)
    for n in range(7):  # three of them made in the same microsecond
        await opened(sessions, scope(tenant, "alice", f"s{n}"), at=NOON + timedelta(seconds=min(n, 4)))
    pages, cursor = [], None
    while True:
        page = await sessions.page(user, 2, cursor)
        pages.append([s.id for s in page.items])
        if (cursor := page.next_cursor) is None:
            break
    assert pages == [["s6", "s5"], ["s4", "s3"], ["s2", "s1"], ["s0"]]
    assert [s.id for s in (await sessions.page(user, 1000, None)).items] == ["s6", "s5", "s4", "s3", "s2", "s1", "s0"]


async def test_a_page_goes_on_where_it_was_when_sessions_come_and_go(sessions, tenant):
    user = scope(tenant, "alice", None)
    for n in range(6):
        await opened(sessions, scope(tenant, "alice", f"s{n}"), at=NOON + timedelta(seconds=n))
    first = await sessions.page(user, 3, None)
    await sessions.drop(scope(tenant, "alice", "s3"))  # the one that the cursor stands on
    await opened(sessions, scope(tenant, "alice", "s9"), at=NOON + timedelta(seconds=9))
    second = await sessions.page(user, 3, first.next_cursor)
    assert [s.id for s in first.items + second.items] == ["s5", "s4", "s3", "s2", "s1", "s0"]
    assert second.next_cursor is None


async def test_looking_at_the_list_renews_nothing(sessions, session_client, tenant):
    me = await opened(sessions, scope(tenant), ttl_s=600)
    await aged(session_client, tenant, 60_000)
    page = await sessions.page(me, 10, None)
    assert page.items[0].expires_at < now() + timedelta(seconds=62)
    assert all(ms <= 60_000 for ms in (await kept(session_client, f"strata:session*:{{{tenant}:*")).values())


async def test_more_sessions_than_the_limit_are_refused_until_one_ends(sessions, tenant):
    for n in range(3):
        await opened(sessions, scope(tenant, "alice", f"s{n}"), limit=3)
    extra = scope(tenant, "alice", "s3")
    with pytest.raises(Overloaded) as error:
        await opened(sessions, extra, limit=3)
    assert error.value.what == "sessions per user" and 30 < error.value.retry_after_s <= 61
    with pytest.raises(NotFound):
        await sessions.get(extra)
    await opened(sessions, scope(tenant, "alice", "s1"), limit=3)  # one that is open already is no new one
    await opened(sessions, scope(tenant, "bob", "b0"), limit=3)  # and another user has his own
    await sessions.drop(scope(tenant, "alice", "s0"))
    await opened(sessions, extra, limit=3)


async def test_expired_sessions_free_their_places(sessions, tenant):
    for n in range(3):
        await opened(sessions, scope(tenant, "alice", f"s{n}"), ttl_s=1, limit=3)
    await asyncio.sleep(2.2)
    await opened(sessions, scope(tenant, "alice", "s9"), limit=1)


async def test_the_limit_holds_under_concurrent_opening(sessions, tenant):
    results = await asyncio.gather(
        *(opened(sessions, scope(tenant, "alice", f"s{n}"), limit=5) for n in range(30)), return_exceptions=True
    )
    assert sum(isinstance(r, Overloaded) for r in results) == 25
    assert len((await sessions.page(scope(tenant), 100, None)).items) == 5


async def test_one_id_wanted_by_many_users_goes_to_one(sessions, tenant):
    results = await asyncio.gather(
        *(opened(sessions, scope(tenant, f"u{n}", "shared")) for n in range(20)), return_exceptions=True
    )
    winners = [r.user_id for r in results if not isinstance(r, BaseException)]
    assert len(winners) == 1 and sum(isinstance(r, Conflict) for r in results) == 19
    assert await sessions.owner(scope(tenant, None, "shared")) == winners[0]


async def test_forgetting_a_user_takes_all_of_his_sessions_and_nobody_elses(sessions, session_client, tenant):
    for n in range(130):  # more than one batch
        await opened(sessions, scope(tenant, "alice", f"s{n}"), limit=200)
    bob = await opened(sessions, scope(tenant, "bob", "b1"))
    assert await sessions.forget_user(scope(tenant, "alice", None)) == 130
    assert await sessions.forget_user(scope(tenant, "alice", None)) == 0
    left = await kept(session_client, f"strata:*{tenant}*")
    assert left and not any("alice" in key or ":s" in key.split("}")[0].split("{")[1] for key in left)
    assert (await sessions.get(bob)).id == "b1"


async def test_a_session_opened_while_its_user_is_forgotten_is_gone_or_listed(sessions, session_client, tenant):
    """Never alive and unlisted: the next erasure would miss it."""
    user = scope(tenant, "alice", None)

    async def open_one(n):
        try:
            return await opened(sessions, scope(tenant, "alice", f"s{n}"), limit=1000)
        except Conflict:
            return None

    async def forget():
        for _ in range(40):
            await sessions.forget_user(user)

    await asyncio.gather(*(open_one(n) for n in range(200)), forget(), forget())
    listed = {s.id for s in (await sessions.page(user, 1000, None)).items}
    alive = {
        key.split("{")[1].split("}")[0].split(":")[1]
        for key in await kept(session_client, f"strata:session:{{{tenant}:*:meta")
    }
    assert alive == listed


@pytest.mark.parametrize("step", ["open", "list_confirm", "opened"])
async def test_a_user_forgotten_at_any_step_of_an_opening_keeps_no_unlisted_session(
    session_client, sessions, tenant, step
):
    """The race above, forced: the erasure falls exactly before the named step."""
    me = scope(tenant)
    run = session_client.run

    async def forgetful(*calls, **options):
        if calls[0].script == step:
            session_client.run = run
            await sessions.forget_user(me)
        return await run(*calls, **options)

    session_client.run = forgetful
    with pytest.raises(Conflict, match="open it again later"):
        await opened(sessions, me)
    assert await kept(session_client, f"strata:*{tenant}*") == {}
    await opened(sessions, me)
