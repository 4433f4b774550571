"""The table of facts, second part: ids and filters, what is not checked, deleting."""

import asyncio
import math

import pytest
from weaviate.classes.query import Filter, MetadataQuery, Sort
from weaviate.exceptions import (
    UnexpectedStatusCodeError,
    WeaviateDeleteManyError,
    WeaviateInsertManyAllFailedError,
    WeaviateInvalidInputError,
    WeaviateQueryError,
)

from tests.standin.facts import ids, number, one

pytestmark = pytest.mark.asyncio


# --- ids and filters --------------------------------------------------------------------------------------------------


async def test_field_tokenization_trims_and_is_exact_otherwise(acme):
    values = ["test", "test ", " test", "Test", "test_domain", "test-1", "caf\u00e9", "cafe\u0301"]
    await acme.data.insert_many([one(n, user=value) for n, value in enumerate(values)])

    async def equal(value):
        return await ids(acme, filters=Filter.by_property("user").equal(value))

    assert await equal("test") == await equal("test ") == [0, 1, 2]
    for n in range(3, len(values)):
        assert await equal(values[n]) == [n]
    assert await equal("tes") == await equal("te*") == await equal("") == []
    assert await ids(acme, filters=Filter.by_property("user").like("test*")) == [0, 1, 2, 4, 5]
    assert await ids(acme, filters=Filter.by_property("user").contains_any(["Test", "test-1", "no"])) == [3, 5]
    assert await ids(acme, filters=Filter.by_property("user").not_equal("test")) == [3, 4, 5, 6, 7]


async def test_filters_by_id_by_number_and_together(acme):
    await acme.data.insert_many([one(n, user=f"u{n % 2}", number=n) for n in range(1, 7)])
    by_id, by_user, by_number = Filter.by_id(), Filter.by_property("user"), Filter.by_property("number")
    assert await ids(acme, filters=by_id.equal(number(3))) == [3]
    assert await ids(acme, filters=by_id.contains_any([number(3), number(5), number(9)])) == [3, 5]
    assert await ids(acme, filters=by_number.greater_or_equal(4)) == [4, 5, 6]
    assert await ids(acme, filters=by_user.equal("u1") & by_number.less_than(4)) == [1, 3]
    assert await ids(acme, filters=by_user.equal("u1") | by_number.equal(2)) == [1, 2, 3, 5]
    answer = await acme.query.fetch_objects_by_ids([number(2), number(6), number(8)])
    assert sorted(found.uuid.int for found in answer.objects) == [2, 6]


async def test_filters_that_cannot_be(acme, everyone):
    await acme.data.insert_many([one(1, terms="green tea")])
    assert await ids(acme, filters=Filter.by_property("terms").equal("tea")) == [
        1
    ]  # searchable only: works all the same
    with pytest.raises(WeaviateInvalidInputError):
        await ids(acme, filters=Filter.by_property("user").contains_any([]))
    for where, words in [
        (Filter.by_property("foo").equal("x"), "no such prop with name 'foo' found in class"),
        (Filter.by_property("hidden").equal("x"), "Filtering by property 'hidden' requires inverted index"),
        (Filter.by_property("user").is_none(True), "Nullstate must be indexed to be filterable!"),
        (Filter.by_property("number").equal("x"), "expected an integer value, but could not parse string 'x' as int"),
    ]:
        with pytest.raises(WeaviateQueryError, match=words):
            await ids(acme, filters=where)
    with pytest.raises(WeaviateDeleteManyError, match="no such prop with name 'foo'"):
        await acme.data.delete_many(where=Filter.by_property("foo").equal("x"))
    with pytest.raises(WeaviateDeleteManyError, match="Filtering by property 'hidden' requires inverted index"):
        await acme.data.delete_many(where=Filter.by_property("hidden").equal("x"))
    with pytest.raises(WeaviateQueryError, match="no such prop with name 'foo'"):
        await acme.query.fetch_objects(limit=1, return_properties=["foo"])


async def test_the_same_id_again_is_an_upsert_and_the_last_wins(acme):
    await acme.data.insert_many([one(1, terms="tea", number=1), one(1, (0, 1, 0), terms="coffee", number=2)])
    assert await ids(acme) == [1]
    found = (await acme.query.near_vector([0, 1, 0], limit=5, return_metadata=MetadataQuery(distance=True))).objects
    assert [each.properties["number"] for each in found] == [2]
    assert found[0].metadata.distance == pytest.approx(0, abs=1e-6)
    assert (await acme.query.bm25("tea", query_properties=["terms"], limit=5)).objects == []


async def test_fifty_concurrent_writers_of_one_id_leave_one_object_that_is_found(acme):
    """Of the others traces may stay for good, in filters, keywords and vectors: they are no results, but an aggregate with a filter
    counts them and a search of few results may lose a place to each. The stand-in leaves none."""
    vectors = [[math.cos(n), math.sin(n), 0.0] for n in range(50)]
    await asyncio.gather(*(acme.data.insert_many([one(1, vectors[n], terms=f"w{n}", number=n)]) for n in range(50)))
    assert (await acme.aggregate.over_all(total_count=True)).total_count == 1
    (kept,) = (await acme.query.fetch_objects(limit=5, include_vector=True)).objects
    n = kept.properties["number"]
    assert kept.vector["default"] == pytest.approx(vectors[n], abs=1e-6)
    worded = (
        await acme.query.bm25(" ".join(f"w{n}" for n in range(50)), query_properties=["terms"], limit=100)
    ).objects
    assert [each.properties["terms"] for each in worded] == [f"w{n}"]


async def test_single_objects_insert_replace_and_delete(acme, rest, name):
    await acme.data.insert({"user": "u"}, uuid=number(1), vector={"default": [1.0, 0.0, 0.0]})
    with pytest.raises(UnexpectedStatusCodeError, match=f"id '{number(1)}' already exists") as refused:
        await acme.data.insert({"user": "u"}, uuid=number(1), vector={"default": [1.0, 0.0, 0.0]})
    assert refused.value.status_code == 422
    await acme.data.replace(number(1), {"user": "v"}, vector={"default": [0.0, 1.0, 0.0]})
    with pytest.raises(UnexpectedStatusCodeError) as refused:
        await acme.data.replace(number(2), {"user": "v"}, vector={"default": [0.0, 1.0, 0.0]})
    assert refused.value.status_code == 404
    asked = {"tenant": "acme", "node_name": (await rest.get("/nodes")).json()["nodes"][0]["name"]}
    assert (await rest.get(f"/objects/{name}/{number(1)}", params=asked)).json()["properties"] == {"user": "v"}
    assert (await rest.get(f"/objects/{name}/{number(2)}", params=asked)).status_code == 404
    assert await acme.data.delete_by_id(number(1)) and await acme.data.delete_by_id(number(1))
    assert await ids(acme) == []


# --- what is not checked ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", [(math.nan, 1.0, 0.0), (math.inf, 1.0, 0.0), (0.0, 0.0, 0.0), None])
async def test_senseless_vectors_are_taken(acme, vector):
    assert not (await acme.data.insert_many([one(1, vector)])).has_errors
    assert await ids(acme) == [1]


async def test_a_wrong_dimension_fails_for_its_object_alone_and_names_a_path(acme):
    await acme.data.insert_many([one(1)])
    answer = await acme.data.insert_many([one(2, (1.0, 0.0)), one(3)])
    assert list(answer.errors) == [0]
    assert "insert called with a vector of the wrong size: 2. Saved length: 3, path: /" in answer.errors[0].message
    assert await ids(acme) == [1, 3]
    with pytest.raises(UnexpectedStatusCodeError, match=r"vector of the wrong size.*path: /") as refused:
        await acme.data.insert({"user": "u"}, uuid=number(4), vector={"default": [1.0]})
    assert refused.value.status_code == 500
    with pytest.raises(WeaviateQueryError, match=r"2 vs 3: vector lengths don't match"):
        await acme.query.near_vector([1, 0], limit=1)


async def test_another_dimension_in_another_tenant_is_taken(everyone, acme):
    await acme.data.insert_many([one(1)])
    assert not (await everyone.with_tenant("other").data.insert_many([one(1, (1.0, 0.0))])).has_errors


async def test_text_with_nul_is_taken_and_a_lone_surrogate_does_not_leave_the_client(acme):
    await acme.data.insert_many([one(1, user="a\x00b", terms="x" * 1_000_000)])
    assert await ids(acme, filters=Filter.by_property("user").equal("a\x00b")) == [1]
    with pytest.raises(UnicodeEncodeError):
        await acme.data.insert_many([one(2, user="a\ud800")])


async def test_a_limit_of_zero_is_the_default_one(acme):
    await acme.data.insert_many([one(n, (1.0, n, 0.0), terms="tea") for n in range(40)])
    assert len((await acme.query.near_vector([1, 0, 0], limit=0)).objects) == 25
    assert len((await acme.query.bm25("tea", query_properties=["terms"], limit=0)).objects) == 25


async def test_ten_thousand_results_are_the_most(acme):
    await acme.data.insert_many([one(1, terms="tea")])
    for call in (
        acme.query.near_vector([1, 0, 0], limit=10_001),
        acme.query.near_vector([1, 0, 0], limit=1, offset=10_000),
        acme.query.bm25("tea", query_properties=["terms"], limit=10_001),
    ):
        with pytest.raises(WeaviateQueryError, match="exceeds the configured value for QUERY_MAXIMUM_RESULTS '10000'"):
            await call
    assert len((await acme.query.near_vector([1, 0, 0], limit=10_000)).objects) == 1


async def test_a_cursor_goes_with_nothing_but_a_limit_and_walks_in_order_of_ids(acme):
    order = [5, 900, 12, 77, 3, 10_000_000, 41]
    await acme.data.insert_many([one(n) for n in order])
    walked, after = [], None
    while True:
        page = (await acme.query.fetch_objects(limit=2, after=after)).objects
        walked += [found.uuid.int for found in page]
        if len(page) < 2:
            break
        after = page[-1].uuid
    assert walked == sorted(order)
    with pytest.raises(WeaviateQueryError, match="where cannot be set with after and limit parameters"):
        await acme.query.fetch_objects(limit=2, after=number(1), filters=Filter.by_property("user").equal("u"))
    with pytest.raises(WeaviateQueryError, match="sort cannot be set with after and limit parameters"):
        await acme.query.fetch_objects(limit=2, after=number(1), sort=Sort.by_property("user"))


async def test_dates_need_an_offset(acme):
    with pytest.raises(WeaviateInsertManyAllFailedError, match="requires a string with a RFC3339 formatted date"):
        await acme.data.insert_many([one(1, at="2026-01-01")])
    await acme.data.insert_many([one(1, at="2026-01-01T00:00:00+01:00")])
    (kept,) = (await acme.query.fetch_objects(limit=1)).objects
    assert kept.properties["at"].isoformat() == "2026-01-01T00:00:00+01:00"


async def test_a_batch_fails_as_a_whole_only_where_every_object_does(acme):
    answer = await acme.data.insert_many([one(1, number="x"), one(2, number=2), one(3, foo="x"), one(4, user=4)])
    messages = {n: error.message for n, error in answer.errors.items()}
    assert messages.keys() == {0, 2, 3}
    assert "requires an integer, the given value is 'x'" in messages[0]
    assert "no such prop with name 'foo' found" in messages[2] and "not a string, but float64" in messages[3]
    assert await ids(acme) == [2]
    with pytest.raises(WeaviateInsertManyAllFailedError):
        await acme.data.insert_many([one(1, number="x")])


# --- deleting ---------------------------------------------------------------------------------------------------------


async def test_a_deletion_is_seen_at_once_by_every_search(acme):
    await acme.data.insert_many([one(n, terms="tea") for n in range(10)])
    where = Filter.by_id().contains_any([number(n) for n in range(5)])
    dry = await acme.data.delete_many(where=where, dry_run=True)
    assert (dry.matches, len(await ids(acme))) == (5, 10)
    done = await acme.data.delete_many(where=where)
    assert (done.matches, done.successful, done.failed) == (5, 5, 0)
    again = await acme.data.delete_many(where=where)
    assert (again.matches, again.successful) == (0, 0)
    near = (await acme.query.near_vector([1, 0, 0], limit=20)).objects
    worded = (await acme.query.bm25("tea", query_properties=["terms"], limit=20)).objects
    for found in (near, worded):
        assert sorted(each.uuid.int for each in found) == [5, 6, 7, 8, 9]
    assert (await acme.aggregate.over_all(total_count=True)).total_count == 5
    counted = await acme.aggregate.over_all(total_count=True, filters=Filter.by_property("user").equal("nobody"))
    assert counted.total_count == 0


async def test_a_delete_by_filter_takes_ten_thousand_at_most(acme):
    for start in range(0, 10_003, 2_500):
        await acme.data.insert_many([one(n, None) for n in range(start, min(10_003, start + 2_500))])
    where = Filter.by_property("user").equal("u")
    first = await acme.data.delete_many(where=where)
    assert (first.matches, first.successful) == (10_003, 10_000)
    assert (await acme.aggregate.over_all(total_count=True)).total_count == 3
    second = await acme.data.delete_many(where=where)
    assert (second.matches, second.successful) == (3, 3)
