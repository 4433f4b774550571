"""The contract of RecordStore: writing and reading entries."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from sqlalchemy import func, select

from memory.entry import Kind, Memory, Source, Status
from memory.errors import Conflict, InvalidInput, NotFound, Overloaded
from memory.ids import MemoryId, SessionId, TenantId, TurnId, UserId, UserRef
from memory.scope import Scope
from memory.text import fingerprint
from storage.protocols import Filters, Insert, Lookup, Plan, Update, UserKey
from storage.records import Database, SqlRecords
from storage.records.schema import audit, memories
from tests.contract.record_cases import DAY, MANY, NOON, NOTHING, change, entry, event, index_all, say, store, supersede

SHANGHAI = timezone(timedelta(hours=8))


@pytest.mark.parametrize(
    "content",
    ["The user's café is in Zürich. 🍵", "用户住在北京，不吃香菜。", "Δοκιμή — naïve “quotes” \\ % _ ' \" ;--"],
)
async def test_an_entry_comes_back_as_it_was_written(records: SqlRecords, alice: Scope, content: str) -> None:
    """L1."""
    memory = Memory(
        id=MemoryId("mem_1"),
        user_id=alice.user,
        kind=Kind.PREFERENCE,
        content=content,
        source=Source.TOOL,
        status=Status.PENDING,
        language="zh",
        importance=0.1 + 0.2,
        confidence=0.6,
        version=3,
        created_at=datetime(2026, 1, 1, 2, 0, 0, 1, tzinfo=SHANGHAI),
        updated_at=NOON,
        subject="allergy:花生",
        value="住在 Zürich",
        exclusive=True,
        entities=("北京", "Zürich"),
        session_id=SessionId("s1"),
        turn_ids=(TurnId("t2"), TurnId("t1")),
        context_turn_ids=(TurnId("t0"),),
        last_access_at=NOON,
        access_count=4,
        hit_count=2,
        valid_from=NOON,
        valid_to=NOON + DAY,
        supersedes=MemoryId("mem_0"),
        metadata={"来源": ["a", 1, None, {"b": 1.5}]},
    )
    await store(records, alice, memory)
    found = await records.get(alice, memory.id)
    assert found == memory
    assert found.created_at.utcoffset() == timedelta(0)


async def test_p17_a_time_without_zone_is_never_stored(records: SqlRecords, alice: Scope) -> None:
    with pytest.raises(ValueError, match="aware"):
        await store(records, alice, entry(alice, "m1", at=datetime(2026, 1, 1)))
    assert (await records.page(alice, Filters(), 10, None)).items == ()


LOOKALIKES = ["Alice", "ALICE", "alice-", "alice_", "alic", "alice2", "a_ice"]


@pytest.mark.parametrize("other", LOOKALIKES)
async def test_p24_lookalike_user_ids_are_other_users(records: SqlRecords, alice: Scope, other: str) -> None:
    bob = replace(alice, user_id=UserId(other))
    await store(records, alice, entry(alice, "m1"))
    await store(records, bob, entry(bob, "m2", "Something else."))
    assert [m.id for m in (await records.page(bob, Filters(), 10, None)).items] == ["m2"]
    assert (await records.delete(bob, None, event("delete"))).count == 1
    assert (await records.get(alice, MemoryId("m1"))).content == "The user likes tea."


@pytest.mark.parametrize("nobody", ["alice ", " alice", "alice\n", "alice@x", "ａlice", "al%", "", "a" * 65])
async def test_p24_ids_that_no_edge_lets_in_are_nobody(records: SqlRecords, alice: Scope, nobody: str) -> None:
    await store(records, alice, entry(alice, "m1"))
    stranger = replace(alice, user_id=UserId(nobody))
    with pytest.raises(NotFound):
        await records.page(stranger, Filters(), 10, None)
    with pytest.raises(NotFound):
        await records.delete(stranger, None, event("delete"))
    with pytest.raises(NotFound):
        await records.get(replace(alice, tenant_id=TenantId(alice.tenant_id + " ")), MemoryId("m1"))


@pytest.mark.parametrize("lookalike", ["m1 ", "M1", "m", "m1x", "m%", "m_", ""])
async def test_p14_an_entry_answers_to_its_own_id_alone(records: SqlRecords, alice: Scope, lookalike: str) -> None:
    await store(records, alice, entry(alice, "m1"))
    asked = MemoryId(lookalike)
    for call in (
        records.get(alice, asked),
        records.history(alice, asked),
        records.delete(alice, [asked], event("delete")),
    ):
        with pytest.raises(NotFound):
            await call
    assert (await records.get(alice, MemoryId("m1"))).content == "The user likes tea."


async def test_p20_another_users_entry_does_not_exist(records: SqlRecords, alice: Scope) -> None:
    bob = replace(alice, user_id=UserId("bob"))
    other_tenant = replace(alice, tenant_id=TenantId(alice.tenant_id + "x"))
    await store(records, alice, entry(alice, "m1"))
    for stranger in (bob, other_tenant):
        for call in (
            records.get(stranger, MemoryId("m1")),
            records.history(stranger, MemoryId("m1")),
            records.delete(stranger, [MemoryId("m1")], event("delete")),
            records.write(
                stranger,
                NOTHING,
                lambda _, who=stranger: Plan((Update(entry(who, "m1", "Stolen."), "corrected"),)),
                [],
                MANY,
            ),
        ):
            with pytest.raises(NotFound):
                await call
        await records.touch(stranger, [MemoryId("m1")], NOON)
        assert await records.recall_rows(stranger, [MemoryId("m1")], Filters(), "m", 100) == []
        seen: list[Memory] = []
        lookup = Lookup(fingerprints=(fingerprint("The user likes tea."),), near=(MemoryId("m1"),))
        await records.write(stranger, lookup, lambda found, seen=seen: seen.extend(found) or Plan(()), [], MANY)
        assert seen == []
    assert await records.get(alice, MemoryId("m1")) == entry(alice, "m1")


async def test_p20_a_plan_for_another_user_is_refused(records: SqlRecords, alice: Scope) -> None:
    bob = replace(alice, user_id=UserId("bob"))
    with pytest.raises(NotFound):
        await store(records, alice, entry(bob, "m1"))
    assert (await records.page(bob, Filters(), 10, None)).items == ()


async def test_a_call_without_a_user_does_not_run(records: SqlRecords, alice: Scope) -> None:
    """I1: no user filter, no query."""
    tenant = Scope(alice.tenant_id)
    with pytest.raises(NotFound):
        await records.page(tenant, Filters(), 10, None)
    with pytest.raises(NotFound):
        await records.delete(tenant, None, event("delete"))
    with pytest.raises(NotFound):
        await records.recall_rows(tenant, [MemoryId("m1")], Filters(), "m", 1)


async def test_p21_concurrent_adds_land_where_they_belong(records: SqlRecords, alice: Scope) -> None:
    """The same ids, the same words, two tenants and two users, at once."""
    scopes = [replace(alice, tenant_id=TenantId(alice.tenant_id + letter)) for letter in "abcd"]
    await asyncio.gather(
        *(store(records, s, entry(s, f"m{i}", f"{s.tenant_id} says {i}")) for i in range(10) for s in scopes)
    )
    for scope in scopes:
        items = (await records.page(scope, Filters(), 100, None)).items
        assert sorted(m.content for m in items) == [f"{scope.tenant_id} says {i}" for i in range(10)]


async def test_one_tenants_users_never_share_an_entry(records: SqlRecords, alice: Scope) -> None:
    bob = replace(alice, user_id=UserId("bob"))
    await store(records, alice, entry(alice, "m1"))
    with pytest.raises(Conflict):
        await store(records, bob, entry(bob, "m1", "Bob's."))
    assert (await records.get(alice, MemoryId("m1"))).content == "The user likes tea."


async def test_p14_equality_is_equality(records: SqlRecords, alice: Scope) -> None:
    """Subjects, and what is found by them, are compared whole: no prefix, case, blank or wildcard."""
    names = ["test", "test_domain", "Test", "test ", "t%", "tes_", "北京", "北京市"]
    await store(records, alice, *(entry(alice, f"m{i}", f"fact {i}", subject=name) for i, name in enumerate(names)))
    for i, name in enumerate(names):
        seen: list[Memory] = []
        lookup = Lookup(subjects=(name,), unindexed=0)
        await records.write(alice, lookup, lambda found, seen=seen: seen.extend(found) or Plan(()), [], MANY)
        assert [m.id for m in seen] == [f"m{i}"]


async def test_p7_a_sort_of_attribute_finds_those_that_are_of_it(records: SqlRecords, alice: Scope) -> None:
    """ "My current favourite is Messi" has to meet the favourite player, whatever the index knows by now."""
    subjects = [
        "favourite:player",
        "favourite:band",
        "favourite",
        "favourites:x",
        "Favourite:y",
        "a:favourite:b",
        "pet:cat:name",
    ]
    bob = replace(alice, user_id=UserId("bob"))
    await store(records, alice, *(entry(alice, f"m{i}", f"fact {i}", subject=s) for i, s in enumerate(subjects)))
    await store(records, bob, entry(bob, "b1", "Bob's.", subject="favourite:player"))
    await index_all(records, alice)
    for asked, found_ids in {
        ("favourite",): {"m0", "m1", "m2"},
        ("favourite:player",): {"m0"},
        ("a:favourite", "pet:cat"): {"m5", "m6"},
        ("pet",): set(),
    }.items():
        seen: list[Memory] = []
        lookup = Lookup(subjects=asked, unindexed=0)
        await records.write(alice, lookup, lambda found, seen=seen: seen.extend(found) or Plan(()), [], MANY)
        assert {m.id for m in seen} == found_ids
    await change(records, alice, "m0", subject="colour")
    seen = []
    await records.write(alice, Lookup(("favourite",), unindexed=0), lambda f: seen.extend(f) or Plan(()), [], MANY)
    assert {m.id for m in seen} == {"m1", "m2"}


async def test_a_lookup_brings_the_union_once_oldest_first(records: SqlRecords, alice: Scope) -> None:
    await store(records, alice, entry(alice, "old", "Old.", subject="home", at=NOON - DAY))
    await index_all(records, alice)
    await store(
        records,
        alice,
        entry(alice, "waits", "Waits for the index.", at=NOON + DAY),
        entry(alice, "print", "Same words.", at=NOON),
        entry(alice, "pending", "In review.", subject="home", status=Status.PENDING, at=NOON + 2 * DAY),
        entry(alice, "gone", "Outdated.", subject="home", status=Status.OUTDATED, at=NOON + 3 * DAY),
    )
    seen: list[str] = []

    async def ids(**lookup: object) -> list[str]:
        def look(found: Sequence[Memory]) -> Plan:
            seen[:] = [m.id for m in found]
            return Plan(())

        await records.write(alice, Lookup(**({"unindexed": 0} | lookup)), look, [], MANY)  # type: ignore[arg-type]
        return list(seen)

    assert await ids() == []
    assert await ids(subjects=("home",)) == ["old", "pending"]
    assert await ids(fingerprints=(fingerprint("same  WORDS"),)) == ["print"]
    assert await ids(near=("gone", "old", "old", "unknown")) == ["old", "gone"]
    assert await ids(unindexed=1) == ["pending"]
    assert await ids(subjects=("home",), near=("old",), unindexed=100) == ["old", "print", "waits", "pending"]


async def test_p9_a_fact_said_twice_is_one_entry_and_stays(records: SqlRecords, alice: Scope) -> None:
    for turn in ("t1", "t2"):
        await records.write(alice, Lookup(), say(alice, f"m_{turn}", "I like tea", turns=[turn]), [], MANY)
    (only,) = (await records.page(alice, Filters(), 10, None)).items
    assert (only.id, only.hit_count, only.status, only.turn_ids) == ("m_t1", 2, Status.ACTIVE, ("t1", "t2"))


async def test_p8_a_contradiction_leaves_the_newer_fact_and_the_older_outdated(
    records: SqlRecords, alice: Scope
) -> None:
    await store(records, alice, entry(alice, "m1", "I love Chinese food", subject="preference:food"))
    await supersede(records, alice, "m1", entry(alice, "m2", "I hate Chinese food", at=NOON + DAY))
    items = {m.id: m.status for m in (await records.page(alice, Filters(), 10, None)).items}
    assert items == {"m1": Status.OUTDATED, "m2": Status.ACTIVE}
    assert (await records.get(alice, MemoryId("m1"))).valid_to == NOON + DAY


async def test_p10_a_write_touches_nothing_but_what_the_plan_names(records: SqlRecords, alice: Scope) -> None:
    """And two equal texts that the rules keep apart (another date) stay two."""
    await store(records, alice, entry(alice, "m1", "Paid the rent.", subject="rent"))
    before = await records.get(alice, MemoryId("m1"))
    await store(records, alice, entry(alice, "m2", "Paid the rent.", at=NOON + 30 * DAY))
    await store(records, alice, entry(alice, "m3", "Likes rowing.", at=NOON + 31 * DAY))
    assert await records.get(alice, MemoryId("m1")) == before
    assert len((await records.page(alice, Filters(), 10, None)).items) == 3


async def test_p34_a_retried_insert_changes_nothing(records: SqlRecords, alice: Scope) -> None:
    await store(records, alice, entry(alice, "m1", "First."))
    await store(records, alice, entry(alice, "m1", "Again."), entry(alice, "m2", "New."))
    assert (await records.get(alice, MemoryId("m1"))).content == "First."
    assert len(await records.history(alice, MemoryId("m1"))) == 1
    assert (await records.get(alice, MemoryId("m2"))).content == "New."


async def test_p34_equal_texts_with_ids_of_their_own_both_stay(records: SqlRecords, alice: Scope) -> None:
    await store(records, alice, entry(alice, "m1", "Same."), entry(alice, "m2", "Same."))
    assert len((await records.page(alice, Filters(), 10, None)).items) == 2


async def test_a_write_is_all_or_nothing(records: SqlRecords, database: Database, alice: Scope) -> None:
    first, second = entry(alice, "m1"), entry(alice, "m2", "Update of what is not there.")
    plan = Plan((Insert(first, "f"), Update(second, "corrected")))
    with pytest.raises(NotFound):
        await records.write(alice, NOTHING, lambda _: plan, [event("write", "m1")], MANY)

    def no(_: Sequence[Memory]) -> Plan:
        raise InvalidInput("content", "say something")

    with pytest.raises(InvalidInput):
        await records.write(alice, NOTHING, no, [event("write", "m1")], MANY)
    assert (await records.page(alice, Filters(), 10, None)).items == ()
    events = select(func.count()).select_from(audit).where(audit.c.tenant_id == alice.tenant_id)
    assert await database.read(lambda c: c.scalar(events)) == 0


async def test_over_the_quota_nothing_is_written(records: SqlRecords, alice: Scope) -> None:
    """Outdated entries count: a fact that flips for ever must not fill the store (P12)."""
    await store(records, alice, entry(alice, "m1"), entry(alice, "m2", "Two.", status=Status.OUTDATED))
    plan = Plan((Insert(entry(alice, "m3", "Three."), "f"), Insert(entry(alice, "m4", "Four."), "g")))
    with pytest.raises(Overloaded):
        await records.write(alice, NOTHING, lambda _: plan, [], 3)
    assert len((await records.page(alice, Filters(), 10, None)).items) == 2
    await records.write(alice, NOTHING, lambda _: Plan(plan.changes[:1]), [], 3)
    await records.write(alice, NOTHING, lambda _: Plan(plan.changes[:1]), [], 1)  # a retry adds nothing
    bob = replace(alice, user_id=UserId("bob"))
    await records.write(bob, NOTHING, lambda _: Plan((Insert(entry(bob, "b1"), "f"),)), [], 1)


async def test_p12_a_fact_repeated_without_end_stays_one_entry(records: SqlRecords, alice: Scope) -> None:
    for i in range(200):
        await records.write(alice, Lookup(), say(alice, f"m{i}", "记住：预算是 2000"), [], MANY)
    (only,) = (await records.page(alice, Filters(), 10, None)).items
    assert only.hit_count == 200


async def test_history_tells_every_change(records: SqlRecords, alice: Scope) -> None:
    """L14."""
    await store(records, alice, entry(alice, "m1", "住在上海", kind=Kind.PROFILE))
    await change(records, alice, "m1", content="住在北京", confidence=0.7, updated_at=NOON + DAY)
    await change(records, alice, "m1", "superseded", status=Status.OUTDATED, updated_at=NOON + 2 * DAY)
    lines = await records.history(alice, MemoryId("m1"))
    assert [(r.version, r.content, r.status, r.confidence, r.at, r.change) for r in lines] == [
        (1, "住在上海", Status.ACTIVE, 0.6, NOON, "stored"),
        (2, "住在北京", Status.ACTIVE, 0.7, NOON + DAY, "corrected"),
        (2, "住在北京", Status.OUTDATED, 0.7, NOON + 2 * DAY, "superseded"),
    ]
    with pytest.raises(NotFound):
        await records.history(alice, MemoryId("m2"))


async def test_touch_counts_and_never_goes_back(records: SqlRecords, alice: Scope) -> None:
    await store(records, alice, entry(alice, "m1"), entry(alice, "m2", "Two."))
    await records.touch(alice, [MemoryId("m1")], NOON + DAY)
    await records.touch(alice, [MemoryId("m1"), MemoryId("m1"), MemoryId("none")], NOON)
    await records.touch(alice, [], NOON)
    touched = await records.get(alice, MemoryId("m1"))
    assert (touched.access_count, touched.last_access_at, touched.updated_at) == (2, NOON + DAY, NOON)
    assert (await records.get(alice, MemoryId("m2"))).access_count == 0
    await change(records, alice, "m1", content="Reworded.", access_count=0, last_access_at=None)
    assert (await records.get(alice, MemoryId("m1"))).access_count == 2  # an update that read old counts keeps the new


async def test_recent_is_active_important_new(records: SqlRecords, alice: Scope) -> None:
    await store(
        records,
        alice,
        entry(alice, "old", "1", importance=0.9, at=NOON - DAY),
        entry(alice, "new", "2", importance=0.9),
        entry(alice, "dull", "3", importance=0.1, at=NOON + DAY),
        entry(alice, "out", "4", importance=1.0, status=Status.OUTDATED),
        entry(alice, "wait", "5", importance=1.0, status=Status.PENDING),
    )
    assert [m.id for m in await records.recent(alice, 10)] == ["new", "old", "dull"]
    assert [m.id for m in await records.recent(alice, 1)] == ["new"]
    assert await records.recent(alice, 0) == []


async def test_two_first_sights_of_a_user_agree(records: SqlRecords, alice: Scope) -> None:
    made: list[UserKey] = []

    def make() -> UserKey:
        made.append(UserKey(UserRef(f"{alice.tenant_id[:20]}_{len(made)}"), bytes([len(made)] * 60)))
        return made[-1]

    await store(records, alice, entry(alice, "m1"))  # the user may have written before
    keys = await asyncio.gather(*(records.user_key(alice, make) for _ in range(8)))
    assert len(set(keys)) == 1 and keys[0] in made
    assert await records.user_key(alice, make) == keys[0]
    bob = replace(alice, user_id=UserId("bob"))
    assert await records.user_key(bob, make) not in keys


async def test_audit_has_a_line_for_each_entry(records: SqlRecords, database: Database, alice: Scope) -> None:
    """I2."""
    seen = replace(event("recall", "m1", "m2"), session_id=SessionId("s1"), reason="similar")
    await records.audit(alice, [seen, event("list")])
    await records.audit(alice, [])
    a = audit.c
    query = select(a.action, a.memory_id, a.user_id, a.session_id, a.actor, a.reason, a.at).where(
        a.tenant_id == alice.tenant_id
    )
    rows = await database.read(lambda c: [tuple(row) for row in c.execute(query.order_by(a.number))])
    assert rows == [
        ("recall", "m1", "alice", "s1", "test", "similar", NOON),
        ("recall", "m2", "alice", "s1", "test", "similar", NOON),
        ("list", None, "alice", None, "test", "", NOON),
    ]


async def test_ping(records: SqlRecords, alice: Scope) -> None:
    await records.ping()


async def test_rows_carry_tenant_and_user(database: Database, records: SqlRecords, alice: Scope) -> None:
    await store(records, alice, entry(alice, "m1"))
    query = select(memories.c.tenant_id, memories.c.user_id).where(memories.c.tenant_id == alice.tenant_id)
    assert await database.read(lambda c: tuple(c.execute(query).one())) == (alice.tenant_id, "alice")
