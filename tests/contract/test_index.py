"""What every index must do, whatever is behind it. Terms and vectors here are what a backend gets to see."""

import asyncio
import math
import subprocess
import sys

import numpy as np
import pytest

from memory.errors import Forbidden, InvalidInput, NotFound
from memory.ids import MemoryId, UserRef
from memory.scope import system_scope
from storage.protocols import SealedEntry, SealedQuery
from tests.contract.index_backends import (
    DIMENSION,
    asking,
    ids_of,
    scope,
    sealed,
    unit,
    walked,
)

pytestmark = pytest.mark.asyncio
GOOD = unit(1)[0]


def found(hits):
    return [hit.id for hit in hits]


# --- finding ----------------------------------------------------------------------------------------------------------


async def test_a_tenant_without_a_partition_finds_nothing_and_nothing_is_made(backend):
    index = backend.bare()
    (vector,) = unit(1)
    before = await backend.raw_bytes()
    await index.check()
    assert await index.search(scope(), asking(vector, "tea"), 10, 10) == []
    assert await index.remaining(scope(), [MemoryId("m1")]) == set()
    assert await index.versions(scope(), [MemoryId("m1")]) == {}
    assert await ids_of(index, scope()) == []
    assert await index.count(scope(), None) == 0 and await index.count(scope(), UserRef("u_1")) == 0
    await index.remove(scope(), [MemoryId("m1")])
    assert await index.remove_user(scope(), UserRef("u_1")) == 0
    await index.upsert(scope(), [])
    await index.scrub(scope())
    await index.drop_tenant(scope())
    await index.ping()
    assert await index.tenants(system_scope()) == set()
    assert await backend.raw_bytes() == before


async def test_a_partition_without_entries_finds_nothing(index):
    (vector,) = unit(1)
    assert await index.search(scope(), asking(vector, "tea"), 10, 10) == []
    assert await walked(index, scope()) == []
    assert await index.count(scope(), None) == 0
    await index.scrub(scope())
    assert await index.tenants(system_scope()) == {"acme"}


async def test_one_entry_is_found_by_either_arm_and_by_both(index):
    near, far = unit(2)
    await index.upsert(scope(), [sealed("m1", near, "I drink green tea", version=3)])
    (hit,) = await index.search(scope(), asking(near, "tea"), 10, 10)
    assert (hit.id, hit.version) == ("m1", 3)
    assert hit.cosine == pytest.approx(1, abs=1e-5) and hit.bm25 > 0
    (hit,) = await index.search(scope(), asking(far), 10, 10)
    assert hit.cosine == pytest.approx(float(near @ far), abs=1e-5) and hit.bm25 is None
    (hit,) = await index.search(scope(), asking(None, "tea"), 10, 10)
    assert hit.cosine is None and hit.bm25 > 0


@pytest.mark.parametrize("count", [2, 1_000, 10_000])
async def test_the_nearest_are_those_of_an_exact_scan(index, count):
    vectors, questions = unit(count), unit(5, seed=1)
    for start in range(0, count, 1_000):
        await index.upsert(
            scope(), [sealed(f"m{n}", vectors[n], f"fact {n}") for n in range(start, min(count, start + 1_000))]
        )
    for question in questions:
        cosines = vectors @ question
        exact = sorted(range(count), key=lambda n: -cosines[n])[:10]
        hits = await index.search(scope(), asking(question), 10, 0)
        assert found(hits) == [f"m{n}" for n in exact]
        assert [hit.cosine for hit in hits] == pytest.approx([float(cosines[n]) for n in exact], abs=1e-5)
    (hit,) = await index.search(scope(), asking(None, f"{count - 1}"), 0, 10)
    assert hit.id == f"m{count - 1}"


async def test_p13_two_character_words_of_chinese_are_found(index):
    texts = {
        "city": "我打算明年搬到北京去住",
        "money": "这个项目的预算是三万",
        "pet": "家里养了两只猫",
        "capital": "北方人在南京生活",  # holds both characters of 北京, but not the word
        "ja": "東京に住んでいます",
        "ko": "서울에서 일해요",
        "en": "She was running late",
    }
    await index.upsert(scope(), [sealed(id, unit(1, seed=n)[0], text) for n, (id, text) in enumerate(texts.items())])
    for question, expected in [
        ("北京", "city"),
        ("预算", "money"),
        ("猫", "pet"),
        ("東京", "ja"),
        ("서울", "ko"),
        ("runs", "en"),
    ]:
        hits = await index.search(scope(), asking(None, question), 0, 10)
        best = max(hits, key=lambda hit: hit.bm25)
        assert best.id == expected, question


async def test_rare_words_weigh_more_and_words_of_the_turn_before_less(index):
    vectors = unit(20)
    await index.upsert(
        scope(),
        [
            sealed("own", vectors[0], "zebra one"),
            sealed("before", vectors[1], "giraffe two", context="zebra one"),
            *[sealed(f"m{n}", vectors[n], "common word here") for n in range(2, 20)],
        ],
    )
    hits = await index.search(scope(), asking(None, "zebra"), 0, 10)
    assert found(sorted(hits, key=lambda hit: -hit.bm25)) == ["own", "before"]
    hits = await index.search(scope(), asking(None, "common zebra"), 0, 20)
    assert max(hits, key=lambda hit: hit.bm25).id == "own"
    assert len(hits) == 20


async def test_a_repeated_word_of_the_question_counts_once(index):
    (vector,) = unit(1)
    await index.upsert(scope(), [sealed("m1", vector, "tea"), *[sealed(f"o{n}", vector, "other") for n in range(9)]])
    (once,) = await index.search(scope(), asking(None, "tea"), 0, 10)
    (thrice,) = await index.search(scope(), asking(None, "tea tea tea"), 0, 10)
    assert once.bm25 == thrice.bm25


async def test_each_arm_is_cut_at_its_own_limit_and_zero_turns_it_off(index):
    vectors = unit(30)
    await index.upsert(scope(), [sealed(f"m{n:02}", vectors[n], "tea") for n in range(30)])
    both = asking(vectors[0], "tea")
    assert len(await index.search(scope(), both, 3, 0)) == 3
    assert len(await index.search(scope(), both, 0, 4)) == 4
    assert await index.search(scope(), both, 0, 0) == []
    hits = await index.search(scope(), both, 3, 4)
    assert sum(hit.cosine is not None for hit in hits) == 3 and sum(hit.bm25 is not None for hit in hits) == 4
    assert len(set(found(hits))) == len(hits)
    assert await index.search(scope(), asking(None, ""), 10, 10) == []


async def test_a_question_of_thousands_of_words_is_answered(index):
    (vector,) = unit(1)
    await index.upsert(scope(), [sealed("m1", vector, "tea")])
    hits = await index.search(scope(), asking(None, "tea " + " ".join(f"word{n}" for n in range(5_000))), 0, 10)
    assert found(hits) == ["m1"]


# --- whose ------------------------------------------------------------------------------------------------------------


async def test_p38_three_memories_beside_five_thousand_are_found(index):
    many, few = unit(5_000), unit(3, seed=1)
    for start in range(0, 5_000, 1_000):
        await index.upsert(scope(), [sealed(f"b{n}", many[n], "tea", user="big") for n in range(start, start + 1_000)])
    await index.upsert(scope(), [sealed(f"s{n}", few[n], "tea", user="small") for n in range(3)])
    # the question is where the other user's entries are: a cut before the filter would leave nothing
    hits = await index.search(scope(), asking(many[0], "tea", user="small"), 3, 3)
    assert sorted(found(hits)) == ["s0", "s1", "s2"]
    assert all(hit.cosine is not None and hit.bm25 is not None for hit in hits)


async def test_p16_nothing_found_stays_nothing(index):
    (vector,) = unit(1)
    await index.upsert(scope(), [sealed("m1", vector, "tea", user="bob")])
    assert await index.search(scope(), asking(vector, "tea", user="alice"), 10, 10) == []


LOOKALIKES = ["alice", "Alice", "ALICE", "alice_", "_alice", "alice-1", "alice1", "alic", "al-ice"]


async def test_p24_lookalike_users_are_others(index):
    vectors = unit(len(LOOKALIKES))
    await index.upsert(scope(), [sealed(f"m{n}", vectors[n], "tea", user=user) for n, user in enumerate(LOOKALIKES)])
    for n, user in enumerate(LOOKALIKES):
        assert found(await index.search(scope(), asking(vectors[0], "tea", user=user), 20, 20)) == [f"m{n}"]


async def test_p24_lookalike_tenants_are_others(index):
    (vector,) = unit(1)
    tenants = ["acme", "ACME", "Acme", "acme_", "acme-", "_acme", "acm", "a-cme", "-a-c-m-e", "a_cme"]
    for tenant in tenants:
        await index.ensure_tenant(scope(tenant=tenant))
        await index.upsert(scope(tenant=tenant), [sealed(f"m_{tenant}", vector, "tea")])
    for tenant in tenants:
        assert await ids_of(index, scope(tenant=tenant)) == [f"m_{tenant}"]
        assert found(await index.search(scope(tenant=tenant), asking(vector, "tea"), 10, 10)) == [f"m_{tenant}"]


async def test_p14_a_delete_takes_the_exact_id_and_no_lookalike(index):
    ids = ["test", "Test", "test_domain", "test-1", "tes", "te", "test_", "TEST"]
    vectors = unit(len(ids))
    await index.upsert(scope(), [sealed(id, vectors[n], "tea") for n, id in enumerate(ids)])
    await index.remove(scope(), [MemoryId("test")])
    assert await index.remaining(scope(), [MemoryId(id) for id in ids]) == set(ids) - {"test"}
    assert sorted(found(await index.search(scope(), asking(vectors[0], "tea"), 20, 20))) == sorted(set(ids) - {"test"})


async def test_p19_removing_all_of_user1_leaves_user2(index):
    vectors = unit(6)
    await index.upsert(scope(), [sealed(f"user1-{n}", vectors[n], "tea", user="user1") for n in range(3)])
    await index.upsert(scope(), [sealed(f"user2-{n}", vectors[3 + n], "tea", user="user2") for n in range(3)])
    await index.remove(scope(), [MemoryId(f"user1-{n}") for n in range(3)])
    assert await index.search(scope(), asking(vectors[0], "tea", user="user1"), 10, 10) == []
    assert len(await index.search(scope(), asking(vectors[0], "tea", user="user2"), 10, 10)) == 3


async def test_p22_an_empty_list_means_nothing(index):
    (vector,) = unit(1)
    await index.upsert(scope(), [sealed("m1", vector, "tea")])
    await index.upsert(scope(), [])
    await index.remove(scope(), [])
    assert await index.versions(scope(), []) == {}
    assert await index.remaining(scope(), []) == set()
    assert await ids_of(index, scope()) == ["m1"]


# --- changing and removing --------------------------------------------------------------------------------------------


async def test_p25_p26_what_was_removed_is_found_by_no_arm(index):
    vectors = unit(50)
    await index.upsert(scope(), [sealed(f"m{n}", vectors[n], f"tea {n}") for n in range(50)])
    assert (
        len(await index.search(scope(), asking(vectors[7], "tea"), 50, 50)) == 50
    )  # and what was kept in memory goes as well
    gone = [MemoryId(f"m{n}") for n in range(0, 50, 2)]
    await index.remove(scope(), gone)
    await index.remove(scope(), gone)  # idempotent
    assert await index.remaining(scope(), gone) == set()
    hits = await index.search(scope(), asking(vectors[8], "tea"), 50, 50)
    assert set(found(hits)) == {f"m{n}" for n in range(1, 50, 2)}
    assert await index.search(scope(), asking(None, "8"), 0, 10) == []


async def test_p28_a_reused_id_brings_nothing_of_its_former_content(index):
    old, new = unit(2)
    await index.upsert(scope(), [sealed("m1", old, "zebra", version=4, context="giraffe")])
    await index.remove(scope(), [MemoryId("m1")])
    await index.upsert(scope(), [sealed("m1", new, "tea")])
    assert await index.search(scope(), asking(None, "zebra giraffe"), 0, 10) == []
    (hit,) = await index.search(scope(), asking(new, "tea"), 10, 10)
    assert hit.cosine == pytest.approx(1, abs=1e-5) and hit.version == 1


async def test_p28_an_id_that_an_orphan_of_another_user_holds_changes_hands_whole(index):
    old, new = unit(2)
    await index.upsert(scope(), [sealed("m1", old, "zebra", user="bob", version=9)])
    await index.search(scope(), asking(old, user="bob"), 10, 10)
    await index.upsert(scope(), [sealed("m1", new, "tea", user="alice")])
    assert await index.search(scope(), asking(old, "zebra tea", user="bob"), 10, 10) == []
    (hit,) = await index.search(scope(), asking(new, "tea zebra", user="alice"), 10, 10)
    assert hit.cosine == pytest.approx(1, abs=1e-5) and hit.version == 1


async def test_a_worker_that_was_stalled_does_not_bring_an_older_version_back(index):
    old, new = unit(2)
    await index.upsert(scope(), [sealed("m1", new, "tea", version=2)])
    await index.upsert(scope(), [sealed("m1", old, "coffee", version=1)])
    assert await index.search(scope(), asking(None, "coffee"), 0, 10) == []
    (hit,) = await index.search(scope(), asking(new, "tea"), 10, 10)
    assert hit.version == 2 and hit.cosine == pytest.approx(1, abs=1e-5)


async def test_the_same_upsert_again_changes_nothing_and_the_last_of_a_batch_counts(index):
    first, last = unit(2)
    for _ in range(3):
        await index.upsert(scope(), [sealed("m1", first, "coffee"), sealed("m1", last, "tea")])
    assert await ids_of(index, scope()) == ["m1"]
    (hit,) = await index.search(scope(), asking(last, "tea coffee"), 10, 10)
    assert hit.cosine == pytest.approx(1, abs=1e-5)
    assert await index.search(scope(), asking(None, "coffee"), 0, 10) == []


async def test_the_sweeper_walks_all_ids_with_their_versions(index):
    ids = {id: n + 1 for n, id in enumerate([f"m{n}" for n in range(25)] + ["M1", "_", "-", "zz"])}
    await index.upsert(scope(), [sealed(id, GOOD, "tea", user=f"u{n % 3}", version=n) for id, n in ids.items()])
    for page in (1, 7, len(ids), 1_000):
        entries = await walked(index, scope(), page)
        assert dict(entries) == ids and len(entries) == len(ids)
    asked = [MemoryId(id) for id in ("m3", "zz", "m33", "Zz")]
    assert await index.versions(scope(), asked) == {"m3": ids["m3"], "zz": ids["zz"]}
    assert await index.remaining(scope(), asked) == {"m3", "zz"}


async def test_p19_a_users_entries_are_counted_and_removed_by_his_reference_alone(index):
    vectors = unit(40)
    users = ["u1", "u-1", "U1", "u_1", "u11"]
    await index.upsert(
        scope(), [sealed(f"m{n}", vectors[n], "tea", user=users[n % len(users)]) for n in range(len(vectors))]
    )
    await index.search(scope(), asking(vectors[0], "tea", user="u1"), 10, 10)
    assert await index.count(scope(), None) == 40 and await index.count(scope(), UserRef("u1")) == 8
    assert await index.remove_user(scope(), UserRef("u1")) == 8
    assert await index.remove_user(scope(), UserRef("u1")) == 0
    assert await index.count(scope(), None) == 32 and await index.count(scope(), UserRef("u1")) == 0
    assert await index.search(scope(), asking(vectors[0], "tea", user="u1"), 10, 10) == []
    for user in users[1:]:
        assert len(await index.search(scope(), asking(vectors[0], "tea", user=user), 10, 10)) == 8
    assert await index.remaining(scope(), [MemoryId(f"m{n}") for n in range(0, 40, 5)]) == set()


# --- partitions -------------------------------------------------------------------------------------------------------


async def test_a_write_makes_no_partition(backend):
    index = await backend.open()
    strange = scope(tenant="nobody")
    with pytest.raises(NotFound) as refused:
        await index.upsert(strange, [sealed("m1", GOOD, "tea")])
    assert refused.value.what == "partition"
    assert await index.tenants(system_scope()) == {"acme"}
    await index.ensure_tenant(strange)
    await index.ensure_tenant(strange)
    await index.upsert(strange, [sealed("m1", GOOD, "tea")])
    await index.ensure_tenant(strange)  # and it is not emptied
    assert await ids_of(index, strange) == ["m1"] and await ids_of(index, scope()) == []
    assert await index.tenants(system_scope()) == {"acme", "nobody"}


async def test_which_tenants_there_are_is_for_the_system_alone(index):
    with pytest.raises(Forbidden):
        await index.tenants(scope())


async def test_a_dropped_tenant_is_empty_and_the_others_are_whole(index):
    for tenant in ("acme", "other"):
        await index.ensure_tenant(scope(tenant=tenant))
        await index.upsert(scope(tenant=tenant), [sealed("m1", GOOD, "tea")])
    await index.search(scope(), asking(GOOD, "tea"), 10, 10)
    await index.drop_tenant(scope())
    await index.drop_tenant(scope())
    assert await index.search(scope(), asking(GOOD, "tea"), 10, 10) == []
    assert await ids_of(index, scope()) == [] and await index.count(scope(), None) == 0
    assert await index.tenants(system_scope()) == {"other"}
    assert await ids_of(index, scope(tenant="other")) == ["m1"]
    await index.ensure_tenant(scope())  # the tenant may come back: empty
    assert await ids_of(index, scope()) == []
    await index.upsert(scope(), [sealed("m2", GOOD, "tea")])
    assert found(await index.search(scope(), asking(GOOD, "tea"), 10, 10)) == ["m2"]


async def test_p28_a_late_write_to_a_dropped_tenant_is_refused_wherever_it_comes_from(backend):
    """The worker may have opened the partition long before, in another process."""
    here, there = await backend.open(), await backend.open()
    await there.upsert(scope(), [sealed("m1", GOOD, "tea")])
    await here.drop_tenant(scope())
    for index in (there, here):
        with pytest.raises(NotFound):
            await index.upsert(scope(), [sealed("late", GOOD, "tea")])
        assert await index.count(scope(), None) == 0
        assert await index.search(scope(), asking(GOOD, "tea"), 10, 10) == []
        assert await index.tenants(system_scope()) == set()
    await here.ensure_tenant(scope())
    await there.upsert(scope(), [sealed("m2", GOOD, "tea")])
    assert await ids_of(here, scope()) == ["m2"]


# --- refused ----------------------------------------------------------------------------------------------------------


def entry(**changes):
    about = {"id": "m1", "user_ref": "u_1", "version": 1, "vector": GOOD, "terms": ("abc",), "context_terms": ()}
    return SealedEntry(**{**about, **changes})


def vector_with(value):
    vector = GOOD.copy()
    vector[5] = value
    return vector


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"vector": vector_with(math.nan)}, "vector"),
        ({"vector": vector_with(math.inf)}, "vector"),
        ({"vector": vector_with(-math.inf)}, "vector"),
        ({"vector": np.zeros(DIMENSION, np.float32)}, "vector"),
        ({"vector": GOOD * 2}, "vector"),
        ({"vector": GOOD[:-1]}, "vector"),
        ({"vector": np.append(GOOD, np.float32(0))}, "vector"),
        ({"vector": GOOD.reshape(1, -1)}, "vector"),
        ({"vector": np.array([], np.float32)}, "vector"),
        ({"id": ""}, "id"),
        ({"id": " m1"}, "id"),
        ({"id": "m1\n"}, "id"),
        ({"id": "ｍ1"}, "id"),
        ({"id": "m" * 65}, "id"),
        ({"user_ref": ""}, "user_ref"),
        ({"user_ref": "u 1"}, "user_ref"),
        ({"version": 0}, "version"),
        ({"terms": ("北京",)}, "terms"),
        ({"terms": ("two words",)}, "terms"),
        ({"terms": ("",)}, "terms"),
        ({"terms": ("Upper",)}, "terms"),
        ({"terms": ('a"b',)}, "terms"),
        ({"terms": ("nul\x00",)}, "terms"),
        ({"terms": ("lone\ud800",)}, "terms"),
        ({"terms": ("a",) * 5_000}, "terms"),
        ({"context_terms": ("a b",)}, "context_terms"),
    ],
)
async def test_a_bad_entry_is_refused_by_name_and_its_batch_with_it(index, changes, field):
    with pytest.raises(InvalidInput) as refused:
        await index.upsert(scope(), [entry(id="good"), entry(**changes)])
    assert refused.value.field == f"entries.1.{field}"
    assert await ids_of(index, scope()) == []


@pytest.mark.parametrize(
    ("query", "limits"),
    [
        (SealedQuery("u_1", vector_with(math.nan), ()), (10, 10)),
        (SealedQuery("u_1", GOOD[:-1], ()), (10, 10)),
        (SealedQuery("", GOOD, ()), (10, 10)),
        (SealedQuery("u_1 OR 1", GOOD, ()), (10, 10)),
        (SealedQuery("u_1", None, ('" OR "a',)), (10, 10)),
        (SealedQuery("u_1", None, ("",)), (10, 10)),
        (SealedQuery("u_1", None, ("terms:a",)), (10, 10)),
        (SealedQuery("u_1", None, ("nul\x00",)), (10, 10)),
        (SealedQuery("u_1", None, ("lone\ud800",)), (10, 10)),
        (SealedQuery("u_1", vector_with(math.inf), ()), (10, 10)),
        (SealedQuery("u_1", np.zeros(DIMENSION, np.float32), ()), (10, 10)),
        (SealedQuery("u_1", GOOD, ()), (-1, 10)),
        (SealedQuery("u_1", GOOD, ()), (10, -1)),
        (SealedQuery("u_1", GOOD, ()), (10_001, 10)),
    ],
)
async def test_a_bad_question_is_refused(index, query, limits):
    await index.upsert(scope(), [entry()])
    with pytest.raises(InvalidInput):
        await index.search(scope(), query, *limits)


@pytest.mark.parametrize("tenant", ["", "../acme", "a/b", "acme ", "acme\x00", "北京", "a" * 65])
async def test_a_tenant_of_another_shape_is_refused(index, tenant):
    with pytest.raises(InvalidInput):
        await index.upsert(scope(tenant=tenant), [entry()])
    for call in (
        index.ensure_tenant(scope(tenant=tenant)),
        index.walk(scope(tenant=tenant), None, 10),
        index.count(scope(tenant=tenant), None),
        index.versions(scope(tenant=tenant), [MemoryId("m1")]),
        index.remove(scope(tenant=tenant), [MemoryId("m1")]),
        index.remove_user(scope(tenant=tenant), UserRef("u_1")),
        index.search(scope(tenant=tenant), asking(GOOD), 10, 10),
        index.scrub(scope(tenant=tenant)),
        index.drop_tenant(scope(tenant=tenant)),
    ):
        with pytest.raises(InvalidInput):
            await call


NO_ID = ["", "m 1", " m1", "m1\n", "m\x00", "m\ud800", "北京", "m" * 65]


@pytest.mark.parametrize("bad", NO_ID, ids=range(len(NO_ID)))
async def test_ids_and_references_of_another_shape_are_refused(index, bad):
    """NUL and lone surrogates among them: no client gets to see them."""
    for call in (
        index.remove(scope(), [MemoryId("m1"), MemoryId(bad)]),
        index.versions(scope(), [MemoryId(bad)]),
        index.remaining(scope(), [MemoryId(bad)]),
        index.remove_user(scope(), UserRef(bad)),
        index.count(scope(), UserRef(bad)),
        index.upsert(scope(), [entry(id=bad)]),
        index.search(scope(), SealedQuery(UserRef(bad), GOOD, ()), 10, 10),
    ):
        with pytest.raises(InvalidInput):
            await call


@pytest.mark.parametrize(("cursor", "limit"), [(None, 0), (None, -1), (None, 10_001), ("' OR 1 --", 10), ("", 10)])
async def test_a_walk_of_no_length_or_from_nowhere_is_refused(index, cursor, limit):
    with pytest.raises(InvalidInput):
        await index.walk(scope(), cursor, limit)


# --- together ---------------------------------------------------------------------------------------------------------


async def test_p27_many_writers_and_readers_at_once_lose_nothing(index):
    vectors = unit(120)

    async def write(n):
        await index.upsert(scope(), [sealed(f"m{n}", vectors[n], "tea", user=f"u{n % 4}")])
        await index.search(scope(), asking(vectors[n], "tea", user=f"u{n % 4}"), 5, 5)

    await asyncio.gather(*(write(n) for n in range(120)))
    assert len(await ids_of(index, scope())) == 120
    for user in range(4):
        hits = await index.search(scope(), asking(vectors[0], "tea", user=f"u{user}"), 100, 100)
        assert set(found(hits)) == {f"m{n}" for n in range(120) if n % 4 == user}


async def test_two_opened_at_once_see_each_others_writes(backend):
    one, other = await backend.open(), await backend.open()
    first, second = unit(2)
    await one.upsert(scope(), [sealed("m1", first, "tea")])
    assert found(await other.search(scope(), asking(first, "tea"), 10, 10)) == ["m1"]
    await one.upsert(scope(), [sealed("m2", second, "tea")])
    assert set(found(await other.search(scope(), asking(first, "tea"), 10, 10))) == {"m1", "m2"}
    await one.upsert(scope(), [sealed("m1", second, "coffee", version=2)])
    hits = {hit.id: hit for hit in await other.search(scope(), asking(second), 10, 10)}
    assert hits["m1"].cosine == pytest.approx(1, abs=1e-5) and hits["m1"].version == 2
    await one.remove(scope(), [MemoryId("m1"), MemoryId("m2")])
    assert await other.search(scope(), asking(first, "tea coffee"), 10, 10) == []
    await one.upsert(scope(), [sealed("m3", first, "tea")])
    assert found(await other.search(scope(), asking(first, "tea"), 10, 10)) == ["m3"]
    await one.drop_tenant(scope())
    assert await other.search(scope(), asking(first, "tea"), 10, 10) == []


async def test_p27_two_processes_write_at_once_and_nothing_is_lost(backend):
    count = 60
    writers = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.contract.index_writer",
            prefix,
            str(count),
            *backend.arguments,
            stderr=subprocess.PIPE,
        )
        for prefix in ("left", "right")
    ]
    ends = [asyncio.create_task(writer.communicate()) for writer in writers]
    index = await backend.open()
    while not all(end.done() for end in ends):  # and a third one reads meanwhile
        await index.search(scope(), asking(unit(1)[0], "fact"), 50, 50)
        await asyncio.sleep(0.01)
    for writer, end in zip(writers, ends, strict=True):
        assert writer.returncode == 0, (await end)[1].decode()
    kept = {f"{prefix}{n}" for prefix in ("left", "right") for n in range(count) if n % 5 != 3} | {"shared"}
    assert set(await ids_of(index, scope())) == kept
    hits = await index.search(scope(), asking(unit(1)[0], "fact"), 1_000, 1_000)
    assert {hit.id for hit in hits if hit.cosine is not None} == kept
    assert {hit.id for hit in hits if hit.bm25 is not None} == kept - {"shared"}
