"""The table of facts, third part: keywords and vectors."""

import math
from collections import Counter

import pytest
from weaviate.classes.query import Filter, MetadataQuery
from weaviate.exceptions import (
    WeaviateQueryError,
)

from tests.standin.facts import one

pytestmark = pytest.mark.asyncio


# --- keywords ---------------------------------------------------------------------------------------------------------

DOCUMENTS = [
    ("tea tea green", "coffee"),
    ("green budget meeting in berlin", ""),
    ("tea", "tea tea"),
    ("北京 预算 预", "tea"),
    ("violin lessons for my daughter on every second weekend", "green"),
    ("coffee", "北京"),
    ("Green", ""),
]


def formula(question, properties):
    """BM25 as the server reckons it: see tests/standin/shard.py."""
    texts = {name: [document[place].split() for document in DOCUMENTS] for place, (name, _) in enumerate(properties)}
    scores = [0.0] * len(DOCUMENTS)
    for word, times in Counter(question.split()).items():
        counts = [n for name in texts if (n := sum(word in text for text in texts[name]))]
        if not counts:
            continue
        having = sum(counts) // len(counts)
        idf = math.log(1 + (len(DOCUMENTS) - having + 0.5) / (having + 0.5)) * times
        for name, boost in properties:
            lengths = [len(text) for text in texts[name] if text]
            mean = sum(lengths) / len(lengths)
            for n, text in enumerate(texts[name]):
                tf = text.count(word)
                scores[n] += boost * idf * tf / (tf + 1.2 * (0.25 + 0.75 * len(text) / mean))
    return {n: score for n, score in enumerate(scores) if score}


@pytest.mark.parametrize(
    "properties", [[("terms", 1.0)], [("terms", 1.0), ("before", 0.5)], [("terms", 2.5), ("before", 1.0)]]
)
@pytest.mark.parametrize(
    "question", ["tea", "green tea", "tea tea green", "北京 预算", "Green", "nothing", "violin coffee tea"]
)
async def test_bm25_in_numbers(acme, properties, question):
    """A repeated word counts again; statistics are the tenant's; properties add up by their boosts."""
    await acme.data.insert_many(
        [one(n, terms=own, **({"before": before} if before else {})) for n, (own, before) in enumerate(DOCUMENTS)]
    )
    answer = await acme.query.bm25(
        question,
        query_properties=[f"{name}^{boost}" for name, boost in properties],
        limit=50,
        return_metadata=MetadataQuery(score=True),
    )
    scores = {found.uuid.int: found.metadata.score for found in answer.objects}
    assert scores == pytest.approx(formula(question, properties), rel=1e-5)
    assert list(scores.values()) == sorted(scores.values(), reverse=True)


async def test_bm25_statistics_are_the_tenants_whatever_the_filter(everyone, acme):
    async def score(collection):
        mine = Filter.by_property("user").equal("me")
        answer = await collection.query.bm25(
            "tea", query_properties=["terms"], filters=mine, limit=5, return_metadata=MetadataQuery(score=True)
        )
        return [(found.uuid.int, found.metadata.score) for found in answer.objects]

    other = everyone.with_tenant("other")
    for collection in (acme, other):
        await collection.data.insert_many([one(1, user="me", terms="tea"), one(2, user="me", terms="milk")])
    before = await score(acme)
    await acme.data.insert_many([one(n, user="you", terms="tea") for n in range(3, 30)])
    await other.data.insert_many([one(n, user="you", terms="nuts") for n in range(3, 30)])
    assert [n for n, _ in before] == [1]
    assert (await score(acme))[0][1] < before[0][1] < (await score(other))[0][1]


async def test_bm25_questions_that_are_empty_or_endless(acme):
    await acme.data.insert_many([one(1, terms="tea")])
    with pytest.raises(WeaviateQueryError, match="must have query set"):
        await acme.query.bm25("", query_properties=["terms"], limit=5)
    assert (await acme.query.bm25("   ", query_properties=["terms"], limit=5)).objects == []
    many = " ".join(f"word{n}" for n in range(2_000))
    assert len((await acme.query.bm25(f"tea {many}", query_properties=["terms"], limit=5)).objects) == 1
    for unsearchable in ("number", "user", "foo"):
        with pytest.raises(WeaviateQueryError, match=f"Searching by property '{unsearchable}' requires inverted index"):
            await acme.query.bm25("tea", query_properties=[unsearchable], limit=5)


# --- vectors ----------------------------------------------------------------------------------------------------------


async def test_the_filter_is_applied_before_the_nearest_are_cut(acme):
    await acme.data.insert_many([one(n, (1.0, n / 1_000, 0.0), user="many") for n in range(300)])
    await acme.data.insert_many([one(1_000 + n, (0.0, 1.0, n / 10), user="few") for n in range(3)])
    answer = await acme.query.near_vector(
        [1, 0, 0],
        limit=3,
        filters=Filter.by_property("user").equal("few"),
        return_metadata=MetadataQuery(distance=True),
    )
    assert sorted(found.uuid.int for found in answer.objects) == [1_000, 1_001, 1_002]
    assert [found.metadata.distance for found in answer.objects] == pytest.approx([1.0] * 3, abs=1e-6)


async def test_distances_are_one_minus_the_cosine(acme):
    vectors = {n: (math.cos(n), math.sin(n), 2.0) for n in range(20)}
    await acme.data.insert_many([one(n, vector) for n, vector in vectors.items()])
    question = (0.3, 0.8, -0.1)
    answer = await acme.query.near_vector(list(question), limit=20, return_metadata=MetadataQuery(distance=True))
    expected = {
        n: 1 - sum(a * b for a, b in zip(vector, question, strict=True)) / math.hypot(*vector) / math.hypot(*question)
        for n, vector in vectors.items()
    }
    assert {found.uuid.int: found.metadata.distance for found in answer.objects} == pytest.approx(expected, abs=1e-5)
    assert [found.uuid.int for found in answer.objects] == sorted(expected, key=expected.get)
