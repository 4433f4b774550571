"""The index is blind: what a backend holds says nothing of whose it is or what it means, and ranks as if it were plain."""

import numpy as np
import pytest

from memory.encoding import EncodedQuery
from memory.errors import InvalidInput, NotFound, Unavailable
from memory.ids import MemoryId, TenantId
from memory.late import pack, unpack
from memory.scope import Scope, system_scope
from memory.seal import seal_term, seal_vector
from memory.terms import terms
from storage.index.blind import BlindIndex
from storage.index.keyring import KeyRing
from storage.protocols import SealedEntry, SealedQuery
from tests.contract.index_backends import MASTER, TENANT, KeysOfATest, alike, ids_of, plain, scope, token, unit, walked

pytestmark = pytest.mark.asyncio

TEXTS = [
    "我打算明年搬到北京去住",
    "项目的预算是三万元",
    "I am allergic to peanuts",
    "My daughter plays the violin",
    "我不喜欢吃香菜",
    "Meetings should start after ten",
    "家里养了两只橘猫",
    "I moved from Lisbon to Porto",
]


async def stored(blind, users=("alice", "bob", "carol"), dimension=384):
    """Every user says the same things, so that only keys tell them apart."""
    vectors = alike(len(TEXTS), dimension)
    for user in users:
        await blind.upsert(scope(user), [plain(f"{user}-{n}", vectors[n], text) for n, text in enumerate(TEXTS)])
    return vectors


@pytest.fixture
def keys():
    return KeysOfATest()


@pytest.fixture
async def blind384(backend, keys):
    return BlindIndex(await backend.open(384), KeyRing(keys, MASTER))


async def test_a_user_finds_his_own_by_words_and_by_meaning(blind384):
    vectors = await stored(blind384)
    hits = await blind384.search(scope("bob"), vectors[4], terms("香菜"), 3, 3)
    assert {hit.id for hit in hits if hit.bm25 is not None} == {"bob-4"}
    best = max((hit for hit in hits if hit.cosine is not None), key=lambda hit: hit.cosine)
    assert best.id == "bob-4" and best.cosine == pytest.approx(1, abs=1e-5)
    assert all(hit.id.startswith("bob-") for hit in hits)
    assert min(hit.cosine for hit in hits if hit.cosine is not None) > 0.65


async def test_a_search_that_forgot_its_filter_finds_nobody_elses(backend, blind384, keys):
    """The second wall: over the raw index, without any user filter, words find one's own alone, and others' vectors are noise."""
    vectors = await stored(blind384)
    ring = KeyRing(keys, MASTER)
    for user in ("alice", "bob", "carol"):
        user_key = await ring.open(scope(user))
        question = await blind384.seal_question(scope(user), EncodedQuery(vectors[0], vectors[:1]))
        words = [seal_term(term, user_key.key) for text in TEXTS for term in terms(text)]
        cosines, worded = await backend.unfiltered(TENANT, question.pooled, words)
        assert worded == {f"{user}-{n}" for n in range(len(TEXTS))}
        own = [cosine for id, cosine in cosines.items() if id.startswith(user)]
        foreign = [cosine for id, cosine in cosines.items() if not id.startswith(user)]
        assert len(own) == len(TEXTS) and len(foreign) == 2 * len(TEXTS)
        assert min(own) > 0.65
        assert max(np.abs(foreign)) < 0.4


async def test_what_a_broken_filter_lets_through_is_dropped_under_the_floor(backend, keys):
    class Unfiltered:
        """The real backend, asked as if it had forgotten whose entries are searched."""

        def __init__(self, inner):
            self.inner = inner

        def __getattr__(self, name):
            return getattr(self.inner, name)

        async def search(self, scope, query, vector_limit, keyword_limit):
            refs = [key.ref for key in keys.stored.values()]
            return [
                hit
                for ref in refs
                for hit in await self.inner.search(
                    scope, SealedQuery(ref, query.vector, query.terms), vector_limit, keyword_limit
                )
            ]

    inner = await backend.open(384)
    vectors = await stored(BlindIndex(inner, KeyRing(keys, MASTER)))
    question = terms(TEXTS[0])
    leaking = BlindIndex(Unfiltered(inner), KeyRing(keys, MASTER), cosine_floor=-1.0)
    assert any(not hit.id.startswith("bob") for hit in await leaking.search(scope("bob"), vectors[0], question, 8, 8))
    walled = BlindIndex(Unfiltered(inner), KeyRing(keys, MASTER))
    hits = await walled.search(scope("bob"), vectors[0], question, 8, 8)
    assert {hit.id for hit in hits} == {f"bob-{n}" for n in range(len(TEXTS))}


async def test_the_raw_bytes_hold_no_word_no_user_and_no_plain_vector(backend, blind384):
    vectors = alike(len(TEXTS))
    rare = "marzipan 杏仁糖 4711"
    before = "gorgonzola 蓝纹奶酪"
    empty = (await backend.raw_bytes()).lower()
    for number, user in enumerate(("unusual_username", "another_username")):
        entries = [plain(f"m{number}-{n}", vectors[n], text, context=TEXTS[n - 1]) for n, text in enumerate(TEXTS)]
        await blind384.upsert(scope(user), [*entries, plain(f"late-{number}", vectors[0], rare, context=before)])
    raw = await backend.raw_bytes()
    assert b"late-1" in raw  # the bytes are those of the index: what may be there is there
    lowered = raw.lower()
    # short ones and numbers may be anywhere by chance: in a sealed term, in a number written out
    spoken = {term for text in (*TEXTS, rare, before) for term in terms(text) if not term.isdecimal()}
    words = {term for term in spoken if len(term.encode()) >= 6}
    words |= {token(word) for word in words} | {"username"}
    words = {word for word in words if word.encode() not in empty}  # "after" and "from" are words of a schema
    assert {"北京", "marzipan", "gorgonzola", "奶酪"} <= words
    for word in words:
        assert word.encode() not in lowered, word
    for vector in vectors:
        for start in range(0, 384, 4):  # any four neighbouring numbers
            assert vector[start : start + 4].tobytes() not in raw


async def test_ranking_is_the_same_sealed_and_plain(backend, keys):
    """One user: the same hits in the same order with the same scores, but for rounding."""
    count, dimension = 200, 64
    vectors, questions = alike(count, dimension), alike(20, dimension, seed=5)
    texts = [f"{TEXTS[n % len(TEXTS)]} number {n % 13} 第{n % 7}次" for n in range(count)]
    index = await backend.open(dimension)
    blind = BlindIndex(index, KeyRing(keys, MASTER))
    await blind.upsert(
        scope("alice"), [plain(f"m{n:03}", vectors[n], texts[n], context=texts[n - 1]) for n in range(count)]
    )
    bare = scope(tenant="plain")
    await index.ensure_tenant(bare)
    await index.upsert(
        bare,
        [
            SealedEntry(
                MemoryId(f"m{n:03}"),
                "u_1",
                1,
                vectors[n],
                tuple(map(token, terms(texts[n]))),
                tuple(map(token, terms(texts[n - 1]))),
            )
            for n in range(count)
        ],
    )
    for n, question in enumerate(questions):
        asked = terms(texts[n * 7])
        sealed = await blind.search(scope("alice"), question, asked, 10, 10)
        unsealed = await index.search(
            bare, SealedQuery("u_1", question, tuple(map(token, dict.fromkeys(asked)))), 10, 10
        )
        assert [hit.id for hit in sealed] == [hit.id for hit in unsealed]
        for one, other in zip(sealed, unsealed, strict=True):
            assert one.cosine == (None if other.cosine is None else pytest.approx(other.cosine, abs=2e-6))
            assert one.bm25 == (None if other.bm25 is None else pytest.approx(other.bm25, rel=1e-9))


async def test_after_a_scrub_the_bytes_are_gone(backend, blind384, keys):
    """P26: not only unlisted: zeroed in the file and its log; where the server keeps its own log, nowhere to be read any more."""
    vectors = await stored(blind384)
    ring = KeyRing(keys, MASTER)
    user_key = await ring.open(scope("bob"))
    blobs = [seal_vector(vector, user_key.key)[:8].tobytes() for vector in vectors]
    words = [seal_term(term, user_key.key).encode() for term in ("北京", "peanut", "violin")]
    before = await backend.readable_bytes()
    assert all(blob in before for blob in blobs) and all(word[:6] in before for word in words)
    await blind384.search(scope("bob"), vectors[0], [], 8, 8)
    await blind384.remove(scope("bob"), [MemoryId(f"bob-{n}") for n in range(len(TEXTS))])
    await blind384.scrub(scope("bob"))
    after = await backend.readable_bytes()
    assert not any(blob in after for blob in blobs)
    assert not any(word in after for word in words)
    assert b"bob-" not in after
    assert user_key.ref.encode() not in after
    assert b"alice-0" in after
    assert len(await blind384.search(scope("alice"), vectors[0], [], 8, 8)) == len(TEXTS)


async def test_after_dropping_a_tenant_its_bytes_are_gone(backend, blind384):
    await stored(blind384)
    await blind384.drop_tenant(Scope(TENANT))
    raw = await backend.raw_bytes()
    assert b"alice-" not in raw and b"bob-" not in raw


async def test_token_vectors_and_questions_are_sealed_under_one_key(blind384):
    tokens, question = unit(12, 384), unit(5, 384, seed=2)
    beside_the_row = await blind384.seal_packed(scope("alice"), pack(tokens))
    asked = await blind384.seal_question(scope("alice"), EncodedQuery(question[0], question))
    plainly = question @ unpack(pack(tokens)).T
    assert asked.tokens @ unpack(beside_the_row).T == pytest.approx(plainly, abs=2e-6)
    assert not np.array_equal(beside_the_row, pack(tokens))
    others = await blind384.seal_packed(scope("bob"), pack(tokens))
    assert np.abs(asked.tokens @ unpack(others).T).max() < 0.4


async def test_the_same_user_id_in_two_tenants_is_two_users(blind384):
    vectors = alike(2)
    for tenant in ("acme", "other"):
        await blind384.ensure_tenant(scope("alice", tenant))
        await blind384.upsert(scope("alice", tenant), [plain("m1", vectors[0], "peanuts")])
    other = Scope(TenantId("other"), scope("alice").user_id)
    one = await blind384.seal_question(scope("alice"), EncodedQuery(vectors[0], vectors))
    two = await blind384.seal_question(other, EncodedQuery(vectors[0], vectors))
    assert abs(float(one.pooled @ two.pooled)) < 0.4


async def test_p16_without_a_user_nothing_is_sealed_searched_or_stored(blind384):
    (vector,) = alike(1)
    with pytest.raises(NotFound):
        await blind384.search(scope(), vector, ["tea"], 10, 10)
    with pytest.raises(NotFound):
        await blind384.upsert(scope(), [plain("m1", vector, "tea")])
    with pytest.raises(NotFound):
        await blind384.seal_packed(scope(), pack(unit(1, 384)))
    await blind384.upsert(scope(), [])


async def test_nan_is_refused_through_the_seal_too(blind384):
    (vector,) = alike(1)
    vector[3] = np.nan
    with pytest.raises(InvalidInput):
        await blind384.upsert(scope("alice"), [plain("m1", vector, "tea")])
    assert await ids_of(blind384, scope("alice")) == []


async def test_a_very_long_entry_is_indexed_by_its_beginning(blind384):
    (vector,) = alike(1)
    await blind384.upsert(scope("alice"), [plain("m1", vector, "zebra " + "word " * 6_000 + "giraffe")])
    assert [hit.id for hit in await blind384.search(scope("alice"), None, ["zebra"], 0, 5)] == ["m1"]
    assert await blind384.search(scope("alice"), None, terms("giraffe"), 0, 5) == []
    assert await blind384.remaining(scope("alice"), [MemoryId("m1")]) == {"m1"}
    await blind384.ping()


async def test_what_needs_no_key_is_passed_on(blind384):
    """Housekeeping knows references, not users."""
    await stored(blind384)
    everything = scope(), None
    assert await blind384.count(*everything) == 3 * len(TEXTS)
    await blind384.check()
    asked = [MemoryId("bob-1"), MemoryId("dave-1")]
    assert await blind384.versions(scope(), asked) == {"bob-1": 1}
    assert await blind384.remaining(scope(), asked) == {"bob-1"}
    assert await blind384.tenants(system_scope()) == {TENANT}
    assert len(await walked(blind384, scope(), 5)) == 3 * len(TEXTS)
    await blind384.drop_tenant(scope())
    assert await blind384.tenants(system_scope()) == set()
    await blind384.aclose()
    with pytest.raises(Unavailable):
        await blind384.count(*everything)


async def test_a_user_who_was_erased_elsewhere_is_not_written_under_his_old_key(backend, keys):
    index = await backend.open(384)
    here, there = BlindIndex(index, KeyRing(keys, MASTER)), BlindIndex(index, KeyRing(keys, MASTER))
    (vector,) = alike(1)
    await here.upsert(scope("alice"), [plain("m1", vector, "peanuts")])
    old = keys.stored.pop((TENANT, "alice")).ref
    assert await there.remove_user(scope("alice"), old) == 1
    await here.upsert(scope("alice"), [plain("m2", vector, "peanuts")])  # he began anew
    assert await index.count(scope(), old) == 0
    new = keys.stored[TENANT, "alice"].ref
    assert new != old and await index.count(scope(), new) == 1
    assert [hit.id for hit in await here.search(scope("alice"), vector, ["peanut"], 5, 5)] == ["m2"]
