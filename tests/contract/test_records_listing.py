"""The contract of RecordStore: filters, pages and the join of recall."""

from dataclasses import replace

import numpy as np
import pytest

from memory.entry import Kind, Memory, Status
from memory.errors import InvalidInput
from memory.ids import MemoryId, UserId
from memory.scope import Scope
from storage.protocols import Filters, RecalledRow
from storage.records import SqlRecords
from tests.contract.record_cases import DAY, MODEL, NOON, change, entry, index_all, packed, store, supersede


def library(scope: Scope) -> list[Memory]:
    """One entry for each thing that a filter can tell apart."""
    return [
        entry(scope, "tea", "Likes Jasmine tea", kind=Kind.PREFERENCE, entities=("Jasmine",), at=NOON),
        entry(scope, "home", "住在北京", kind=Kind.PROFILE, confidence=0.9, entities=("北京",), at=NOON + DAY),
        entry(scope, "sale", "Got 100% off at ACME", entities=("ACME", "Jasmine"), at=NOON + 2 * DAY),
        entry(
            scope,
            "was",
            "Lived in École Street_1",
            status=Status.OUTDATED,
            valid_from=NOON - 9 * DAY,
            valid_to=NOON + DAY,
            at=NOON - DAY,
        ),
        entry(scope, "soon", "In review", status=Status.PENDING, at=NOON + 3 * DAY),
    ]


ACTIVE = {"tea", "home", "sale"}
ALL = {*ACTIVE, "was", "soon"}

FILTERS = [
    # filters, what a listing shows, what recall brings
    (Filters(), ALL, ACTIVE),
    (Filters(kinds=()), set(), set()),  # P22: an empty list is nothing
    (Filters(kinds=(Kind.PREFERENCE,)), {"tea"}, {"tea"}),
    (Filters(kinds=(Kind.PREFERENCE, Kind.PROFILE)), {"tea", "home"}, {"tea", "home"}),
    (Filters(kinds=(Kind.LESSON,)), set(), set()),
    (Filters(status=Status.ACTIVE), ACTIVE, ACTIVE),
    (Filters(status=Status.OUTDATED), {"was"}, {"was"}),
    (Filters(status=Status.PENDING), {"soon"}, {"soon"}),
    (Filters(since=NOON + DAY), {"home", "sale", "soon"}, {"home", "sale"}),
    (Filters(until=NOON + DAY), {"tea", "was"}, {"tea"}),
    (Filters(since=NOON, until=NOON + DAY), {"tea"}, {"tea"}),
    (Filters(min_confidence=0.9), {"home"}, {"home"}),
    (Filters(min_confidence=0.91), set(), set()),
    (Filters(entity="jasmine"), {"tea", "sale"}, {"tea", "sale"}),
    (Filters(entity="ＡＣＭＥ"), {"sale"}, {"sale"}),
    (Filters(entity="北京"), {"home"}, {"home"}),
    (Filters(entity="北"), set(), set()),  # P14: a name, not a part of one
    (Filters(entity="%"), set(), set()),
    (Filters(text="tea"), {"tea"}, {"tea"}),
    (Filters(text="JASMINE"), {"tea"}, {"tea"}),
    (Filters(text="北京"), {"home"}, {"home"}),
    (Filters(text="%"), {"sale"}, {"sale"}),
    (Filters(text="_"), {"was"}, set()),
    (Filters(text="éCOLE"), {"was"}, set()),
    (Filters(text="/"), set(), set()),
    (Filters(as_of=NOON - 5 * DAY), {"was"}, {"was"}),
    (Filters(as_of=NOON), {"was", "tea"}, {"was", "tea"}),
    (Filters(as_of=NOON + DAY), {"tea", "home"}, {"tea", "home"}),  # `was` ended at that very time
    (Filters(as_of=NOON - 10 * DAY), set(), set()),
    (Filters(as_of=NOON, status=Status.OUTDATED), {"was"}, {"was"}),
    (Filters(kinds=(Kind.FACT,), entity="acme", min_confidence=0.5, since=NOON, text="off"), {"sale"}, {"sale"}),
]


@pytest.mark.parametrize(("filters", "listed", "recalled"), FILTERS)
async def test_p15_every_filter_filters(
    records: SqlRecords, alice: Scope, filters: Filters, listed: set[str], recalled: set[str]
) -> None:
    await store(records, alice, *library(alice))
    bob = replace(alice, user_id=UserId("bob"))
    await store(records, bob, *(replace(m, id=MemoryId(f"bob_{m.id}"), user_id=bob.user) for m in library(alice)))
    ids = [MemoryId(i) for i in sorted(ALL)]
    assert {m.id for m in (await records.page(alice, filters, 100, None)).items} == listed
    assert {r.memory.id for r in await records.recall_rows(alice, ids, filters, MODEL, 0)} == recalled
    assert {r.memory.id for r in await records.recall_rows(alice, [], filters, MODEL, 100)} == recalled
    assert {r.memory.id for r in await records.recall_rows(alice, ids, filters, MODEL, 100)} == recalled


async def test_pages_are_newest_first_and_lose_nothing(records: SqlRecords, alice: Scope) -> None:
    times = [NOON + (i % 3) * DAY for i in range(10)]  # equal times must not be skipped at a page's end
    await store(records, alice, *(entry(alice, f"m{i}", f"fact {i}", at=at) for i, at in enumerate(times)))
    seen: list[Memory] = []
    cursor = None
    for _ in range(10):
        page = await records.page(alice, Filters(), 3, cursor)
        seen += page.items
        cursor = page.next_cursor
        await store(records, alice, entry(alice, f"late{len(seen)}", "late", at=NOON + 9 * DAY))  # before the cursor
        if cursor is None:
            break
    assert [m.id for m in seen] == [m.id for m in sorted(seen, key=lambda m: (m.created_at, m.id), reverse=True)]
    assert {m.id for m in seen} == {f"m{i}" for i in range(10)}
    assert cursor is None


async def test_a_cursor_is_its_callers_alone(records: SqlRecords, alice: Scope) -> None:
    await store(records, alice, entry(alice, "m1"), entry(alice, "m2", "Two."))
    cursor = (await records.page(alice, Filters(), 1, None)).next_cursor
    assert cursor is not None
    bob = replace(alice, user_id=UserId("bob"))
    for scope, bad in ((bob, cursor), (alice, cursor[:40]), (alice, "x"), (alice, "")):
        with pytest.raises(InvalidInput):
            await records.page(scope, Filters(), 1, bad)


async def recall(
    records: SqlRecords, scope: Scope, *ids: str, unindexed: int = 0, model: str = MODEL
) -> dict[str, RecalledRow]:
    rows = await records.recall_rows(scope, [MemoryId(i) for i in ids], Filters(), model, unindexed)
    assert len({r.memory.id for r in rows}) == len(rows)
    return {r.memory.id: r for r in rows}


async def test_p22_no_ids_recall_nothing(records: SqlRecords, alice: Scope) -> None:
    await store(records, alice, entry(alice, "m1"))
    assert await recall(records, alice) == {}


async def test_recall_brings_tokens_of_the_present_wording(records: SqlRecords, alice: Scope, worker: Scope) -> None:
    await store(records, alice, entry(alice, "m1"), entry(alice, "m2", "Two."))
    rows = await recall(records, alice, "m1", "m1", "none")
    assert rows["m1"].unindexed and rows["m1"].tokens is None
    await index_all(records, alice, seed=5)
    row = (await recall(records, alice, "m1", unindexed=100))["m1"]
    assert not row.unindexed
    assert row.tokens is not None and row.tokens.dtype == np.uint8
    np.testing.assert_array_equal(row.tokens, packed(5))
    assert set(await recall(records, alice, unindexed=100)) == set()  # nothing waits any more

    await change(records, alice, "m1", content="Other words.")
    row = (await recall(records, alice, "m1"))["m1"]
    assert row.unindexed and row.tokens is None and row.memory.content == "Other words."
    assert set(await recall(records, alice, "m2", unindexed=100)) == {"m1", "m2"}


async def test_p18_another_models_tokens_are_never_answered_and_the_entry_is_still_found(
    records: SqlRecords, alice: Scope
) -> None:
    await store(records, alice, entry(alice, "m1"))
    await index_all(records, alice)
    assert (await recall(records, alice, "m1"))["m1"].tokens is not None
    other = (await recall(records, alice, "m1", model="another_8_cd"))["m1"]
    assert other.tokens is None and other.memory.id == "m1"


async def test_recall_shows_what_an_entry_replaced(records: SqlRecords, alice: Scope) -> None:
    """L6."""
    await store(records, alice, entry(alice, "m1", "Lives in Bonn"))
    await supersede(records, alice, "m1", entry(alice, "m2", "Lives in Ulm", at=NOON + DAY))
    rows = await recall(records, alice, "m1", "m2", unindexed=10)
    assert set(rows) == {"m2"}
    before = rows["m2"].predecessor
    assert before is not None and (before.id, before.status, before.content) == ("m1", Status.OUTDATED, "Lives in Bonn")


async def test_the_newest_that_wait_come_first(records: SqlRecords, alice: Scope) -> None:
    await store(records, alice, entry(alice, "early", "early"))
    await index_all(records, alice)
    await store(records, alice, *(entry(alice, f"m{i}", f"fact {i}", at=NOON + i * DAY) for i in range(6)))
    assert set(await recall(records, alice, unindexed=2)) == {"m5", "m4"}
    await change(records, alice, "early", content="Corrected just now.", updated_at=NOON + 99 * DAY)
    assert set(await recall(records, alice, unindexed=2)) == {"m5", "early"}


async def test_more_ids_than_a_statement_takes(records: SqlRecords, alice: Scope) -> None:
    await store(records, alice, *(entry(alice, f"m{i}", f"fact {i}") for i in range(3)))
    ids = [f"x{i}" for i in range(12_000)]
    assert set(await recall(records, alice, "m0", *ids, "m1", unindexed=1)) == {"m0", "m1", "m2"}
