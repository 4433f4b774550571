"""What decides the order of what is found is one rule, whatever the backend and whoever else is in it."""

import asyncio

import numpy as np
import pytest

from memory.fusion import rrf, scaled, weighted
from memory.ids import MemoryId, UserRef
from memory.terms import terms
from storage.index.blind import BlindIndex
from storage.index.keyring import KeyRing
from storage.keys import MasterKey
from storage.protocols import UserKey
from tests.contract.index_backends import (
    BACKENDS,
    MASTER,
    TENANT,
    WEAVIATE,
    KeysOfATest,
    alike,
    asking,
    plain,
    scope,
    sealed,
    unit,
    walked,
)

pytestmark = pytest.mark.asyncio

WORDS = [
    *("green", "tea", "coffee", "peanuts", "violin", "budget", "Berlin", "Porto", "allergy", "meeting", "running"),
    *("marathon", "sister", "daughter", "cat", "orange", "预算", "北京", "搬家", "会议", "过敏", "花生", "香菜"),
    *("橘猫", "小提琴", "女儿", "项目", "三万", "跑步", "周末", "计划", "上海", "咖啡", "绿茶", "妹妹", "马拉松"),
]


def said(count, seed):
    """Texts of 1 to 12 words, some said often and some rarely."""
    random = np.random.default_rng(seed)
    chances = 1 / np.arange(1, len(WORDS) + 1)
    return [" ".join(random.choice(WORDS, random.integers(1, 13), p=chances / chances.sum())) for _ in range(count)]


def column(hits, ids, name):
    values = {hit.id: getattr(hit, name) for hit in hits}
    return np.array([np.nan if values.get(id) is None else values[id] for id in ids])


async def test_both_tiers_find_the_same_in_the_same_order(tmp_path):
    """Three users' sealed entries with the words of the turn before: every arm's hits, their scores, and what is fused from them."""
    count, dimension = 120, 64
    vectors, questions = alike(count, dimension), alike(12, dimension, seed=5)
    texts, before, asked = said(count, 1), said(count, 2), said(12, 3)
    keys = KeysOfATest()
    made = [BACKENDS[name](tmp_path / name) for name in ("local", WEAVIATE)]
    tiers = [BlindIndex(await backend.open(dimension), KeyRing(keys, MASTER)) for backend in made]
    for n, user in enumerate(("alice", "bob", "carol")):
        entries = [
            plain(f"{user}{i:03}", vectors[i], texts[i], context=before[i] if i % 3 else "") for i in range(n, count)
        ]
        for tier in tiers:
            await tier.upsert(scope(user), entries)
    for question, text in zip(questions, asked, strict=True):
        for limit in (10, 50):
            one, other = [await tier.search(scope("bob"), question, terms(text), limit, count) for tier in tiers]
            assert [hit.id for hit in one] == [hit.id for hit in other]
            assert [(hit.cosine is None, hit.bm25 is None) for hit in one] == [
                (hit.cosine is None, hit.bm25 is None) for hit in other
            ]
            ids = [hit.id for hit in one]
            cosines, keywords = zip(
                *[(column(hits, ids, "cosine"), column(hits, ids, "bm25")) for hits in (one, other)], strict=True
            )
            assert cosines[0] == pytest.approx(cosines[1], abs=1e-5, nan_ok=True)
            assert np.isfinite(keywords[0]).sum() > 5
            assert keywords[0] == pytest.approx(keywords[1], rel=1e-5, nan_ok=True)
            orders = []
            for near, worded in zip(cosines, keywords, strict=True):
                fused = weighted([scaled(near), scaled(worded)], [1.0, 0.45])
                orders += [
                    np.argsort(-fused.round(5), kind="stable"),
                    np.argsort(-rrf([near.round(5), worded.round(5)], [1.0, 0.45]), kind="stable"),
                ]
            assert orders[0].tolist() == orders[2].tolist() and orders[1].tolist() == orders[3].tolist()
    for backend in made:
        await backend.discard()


async def test_other_users_words_do_not_move_my_scores(index):
    """BM25 weighs a word by how many entries have it. Sealed, those are mine alone; in the clear they are everybody's. (How many
    entries there are, and how long, is the whole tenant's either way: both tenants here agree on that.)"""
    mine = ["green tea budget", "green budget meeting", "tea meeting", "budget violin", "tea violin green", "meeting"]
    questions = ["tea violin", "budget meeting", "green meeting violin"]
    (vector,) = unit(1)
    blind = BlindIndex(index, KeyRing(KeysOfATest(), MASTER))
    sealed_scores, clear_scores = [], []
    for words in ("violin meeting", "lathe chisel"):  # what somebody else says, mine or not
        secret, clear = (scope(tenant=f"{words.split()[0]}-{kind}") for kind in ("secret", "clear"))
        await index.ensure_tenant(secret)
        await index.ensure_tenant(clear)
        texts = {"alice": mine, "bob": [f"{words} w{n}" for n in range(60)]}
        for user, said_by in texts.items():
            await blind.upsert(
                scope(user, secret.tenant_id), [plain(f"{user}{n}", vector, text) for n, text in enumerate(said_by)]
            )
            await index.upsert(clear, [sealed(f"{user}{n}", vector, text, user=user) for n, text in enumerate(said_by)])
        for question in questions:
            hits = await blind.search(scope("alice", secret.tenant_id), None, terms(question), 0, 20)
            sealed_scores.append({hit.id: hit.bm25 for hit in hits})
            hits = await index.search(clear, asking(None, question, user="alice"), 0, 20)
            clear_scores.append({hit.id: hit.bm25 for hit in hits})
    for number in range(len(questions)):
        one, other = sealed_scores[number], sealed_scores[number + len(questions)]
        assert other == pytest.approx(one, rel=1e-6) and len(one) > 2
        moved = clear_scores[number]
        assert moved.keys() == one.keys() and moved != pytest.approx(one, rel=0.1)  # so it is the seal that holds them
    best = [max(scores, key=scores.get) for scores in (*sealed_scores[::3], *clear_scores[::3])]
    assert best == ["alice4", "alice4", "alice2", "alice4"]  # the order too


async def test_one_entry_written_by_many_at_once_is_one_and_whole(backend):
    one, other = await backend.open(), await backend.open()
    vectors = unit(30)
    writes = [
        index.upsert(scope(), [sealed("m1", vectors[n], f"word{n}"), sealed(f"o{n}", vectors[n], "other")])
        for n, index in enumerate([one, other] * 15)
    ]
    for start in range(0, 30, 10):
        await asyncio.gather(*writes[start : start + 10])
    assert await one.versions(scope(), [MemoryId("m1")]) == {"m1": 1}
    assert await one.count(scope(), None) == 31
    (word,) = [n for n in range(30) if await one.search(scope(), asking(None, f"word{n}"), 0, 5)]
    near = await other.search(scope(), asking(vectors[word]), 100, 0)
    cosines = [hit.cosine for hit in near if hit.id == "m1"]
    assert cosines == pytest.approx([1.0], abs=1e-5)  # words and vector are of one write


async def test_p26_after_writes_of_the_same_entries_at_once_a_user_can_still_be_removed_and_shown_to_be(backend):
    """A server that locks an entry for part of a write only leaves traces of the loser: they must not be counted as entries, or an
    erasure would wait for ever."""
    one, other = await backend.open(), await backend.open()
    vectors = unit(60)
    ids = [MemoryId(f"m{n}") for n in range(60)]
    for n, id in enumerate(ids):
        entries = [sealed(id, vectors[n], "tea"), sealed(id, vectors[-n], "coffee")]
        await asyncio.gather(
            *(index.upsert(scope(), [entry]) for index, entry in zip((one, other), entries, strict=True))
        )
    assert await one.count(scope(), UserRef("u_1")) == await one.count(scope(), None) == 60
    assert await one.remove_user(scope(), UserRef("u_1")) == 60
    assert await one.count(scope(), UserRef("u_1")) == await one.count(scope(), None) == 0
    assert await one.remaining(scope(), ids) == set()
    assert await one.search(scope(), asking(vectors[0], "tea coffee"), 100, 100) == []
    assert await walked(one, scope()) == []
    await one.upsert(scope(), [sealed("m1", vectors[0], "tea")])
    hits = await other.search(scope(), asking(vectors[0], "tea"), 100, 100)
    assert [(hit.id, hit.cosine) for hit in hits] == [("m1", pytest.approx(1, abs=1e-5))]


# --- rotation ---------------------------------------------------------------------------------------------------------


async def test_a_users_key_is_rotated_by_writing_his_entries_anew(backend):
    index, keys = await backend.open(64), KeysOfATest()
    writer, reader = BlindIndex(index, KeyRing(keys, MASTER)), BlindIndex(index, KeyRing(keys, MASTER))
    vectors, texts = alike(20, 64), said(20, 4)
    entries = [plain(f"m{n:02}", vectors[n], f"{texts[n]} tea") for n in range(20)]
    await writer.upsert(scope("alice"), entries)
    await writer.upsert(scope("bob"), [plain(f"b{n}", vectors[n], texts[n]) for n in range(5)])
    before = await reader.search(scope("alice"), vectors[3], ["tea"], 20, 20)
    old = keys.stored.pop((TENANT, "alice"))  # as the records do: another key and reference, everything dirty
    await writer.upsert(scope("alice"), entries[:12])
    new = keys.stored[TENANT, "alice"]
    assert new.ref != old.ref
    assert await index.count(scope(), old.ref) == 8 and await index.count(scope(), new.ref) == 12
    half = await BlindIndex(index, KeyRing(keys, MASTER)).search(scope("alice"), vectors[3], ["tea"], 20, 20)
    assert {hit.id for hit in half} == {f"m{n:02}" for n in range(12)}
    await writer.upsert(scope("alice"), entries[12:])
    assert await index.remove_user(scope(), old.ref) == 0  # every entry changed hands; the old reference is empty
    fresh = BlindIndex(index, KeyRing(keys, MASTER))
    after = await fresh.search(scope("alice"), vectors[3], ["tea"], 20, 20)
    assert [hit.id for hit in after] == [hit.id for hit in before]
    assert [hit.cosine for hit in after] == pytest.approx([hit.cosine for hit in before], abs=1e-5)
    await fresh.scrub(scope("alice"))
    # who still has the old key finds nothing with it, and nothing of it is left
    assert await reader.search(scope("alice"), vectors[3], ["tea"], 20, 20) == []
    assert old.ref.encode() not in await backend.readable_bytes()
    assert len(await fresh.search(scope("bob"), vectors[0], [], 20, 0)) == 5


async def test_an_entry_that_was_left_under_the_old_reference_goes_with_it(backend):
    """It was removed from the records while the key was being rotated."""
    index, keys = await backend.open(64), KeysOfATest()
    blind = BlindIndex(index, KeyRing(keys, MASTER))
    vectors = alike(3, 64)
    await blind.upsert(scope("alice"), [plain(f"m{n}", vectors[n], "tea") for n in range(3)])
    old = keys.stored.pop((TENANT, "alice"))
    await blind.upsert(scope("alice"), [plain(f"m{n}", vectors[n], "tea") for n in range(2)])
    assert await blind.remove_user(scope("alice"), old.ref) == 1
    assert await index.count(scope(), old.ref) == 0
    assert {hit.id for hit in await blind.search(scope("alice"), vectors[0], ["tea"], 9, 9)} == {"m0", "m1"}


async def held(backend, index, vectors):
    return await walked(index, scope()), await backend.unfiltered(TENANT, vectors[0], ["tea"])


async def test_another_master_key_leaves_the_index_untouched(backend):
    index, keys = await backend.open(64), KeysOfATest()
    vectors = alike(4, 64)
    blind = BlindIndex(index, KeyRing(keys, MASTER))
    for user in ("alice", "bob"):
        await blind.upsert(scope(user), [plain(f"{user}{n}", vectors[n], "tea") for n in range(4)])
    before = await held(backend, index, vectors)
    found = await blind.search(scope("bob"), vectors[1], ["tea"], 4, 4)
    new = MasterKey(bytes(range(1, 33)))
    both = MasterKey(new.current, (MASTER.current,))
    assert await BlindIndex(index, KeyRing(keys, both)).search(scope("bob"), vectors[1], ["tea"], 4, 4) == found
    for (tenant, user), key in list(keys.stored.items()):  # what `strata keys rotate` does to the records
        keys.stored[tenant, user] = UserKey(key.ref, both.rewrapped(key.wrapped, tenant, key.ref))
    assert await BlindIndex(index, KeyRing(keys, new)).search(scope("bob"), vectors[1], ["tea"], 4, 4) == found
    assert await held(backend, index, vectors) == before
