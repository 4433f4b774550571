"""What a Weaviate server was seen to do: one table, for the real one (STRATA_TEST_WEAVIATE) and for the stand-in alike.

A row that fails on the stand-in is a fault of the stand-in. A row that fails on a real server is news about that server.
Here: collections and tenants; `test_facts_objects.py` and `test_facts_searches.py` go on.
"""

import asyncio

import pytest
from weaviate.classes.query import Filter
from weaviate.classes.tenants import Tenant, TenantActivityStatus
from weaviate.exceptions import (
    UnexpectedStatusCodeError,
    WeaviateDeleteManyError,
    WeaviateInsertManyAllFailedError,
    WeaviateQueryError,
)

from tests.standin.facts import connected, ids, number, one, schema
from tests.standin.running import REAL, standin

pytestmark = pytest.mark.asyncio


# --- collections ------------------------------------------------------------------------------------------------------


async def test_a_write_to_a_missing_collection_is_refused(client, name):
    with pytest.raises(WeaviateInsertManyAllFailedError, match=f"class '{name}' not present in schema"):
        await client.collections.use(name).with_tenant("acme").data.insert_many([one(1)])
    assert not await client.collections.exists(name)


async def test_a_late_write_to_a_dropped_collection_is_refused_and_makes_nothing(client, name, acme):
    await client.collections.delete(name)
    with pytest.raises(WeaviateInsertManyAllFailedError, match="not present in schema"):
        await acme.data.insert_many([one(1)])
    with pytest.raises(WeaviateQueryError, match=f"could not find class {name} in schema"):
        await acme.query.near_vector([1, 0, 0], limit=1)
    assert not await client.collections.exists(name)
    await client.collections.delete(name)  # again: no error


@pytest.mark.skipif(bool(REAL), reason="the real server of the tests has AUTOSCHEMA_ENABLED=false")
async def test_with_auto_schema_a_late_write_fails_and_leaves_a_collection_of_the_wrong_shape(name):
    with standin(auto_schema=True) as address:
        async with connected(address) as client:
            with pytest.raises(WeaviateInsertManyAllFailedError, match="multi-tenancy disabled, but request was with"):
                await client.collections.use(name).with_tenant("acme").data.insert_many([one(1)])
            made = await client.collections.use(name).config.get()
            assert not made.multi_tenancy_config.enabled
            with pytest.raises(UnexpectedStatusCodeError, match=f"class name {name} already exists"):
                await client.collections.create_from_dict(schema(name))
            await client.collections.create_from_dict(schema(f"{name}2"))
            tenant = client.collections.use(f"{name}2").with_tenant("acme")
            await client.collections.use(f"{name}2").tenants.create(["acme"])
            await tenant.data.insert_many([one(1, colour="red")])
            assert "colour" in [each.name for each in (await tenant.config.get()).properties]


async def test_creating_what_exists_is_refused_and_of_four_at_once_one_wins(client, name):
    calls = [client.collections.create_from_dict(schema(name)) for _ in range(4)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    refused = [each for each in outcomes if isinstance(each, UnexpectedStatusCodeError)]
    assert len(refused) == 3
    assert all(each.status_code == 422 and "already exists" in str(each) for each in refused)
    with pytest.raises(UnexpectedStatusCodeError, match=f"class name {name} already exists"):
        await client.collections.create_from_dict(schema(name))


@pytest.mark.parametrize("bad", ["with-hyphen", "A" * 300, "1st", "with blank"])
async def test_collection_names_are_letters_digits_and_underscores(client, bad):
    with pytest.raises(UnexpectedStatusCodeError, match="is not a valid class name"):
        await client.collections.create_from_dict(schema(bad))


async def test_a_collections_first_letter_is_made_upper_case(client, name):
    lower = name[0].lower() + name[1:]
    await client.collections.create_from_dict(schema(lower))
    assert name in await client.collections.list_all() and await client.collections.exists(lower)


async def test_what_is_left_out_is_filled_in(rest, client, name):
    await client.collections.create_from_dict(
        {
            "class": name,
            "vectorConfig": {"default": {"vectorizer": {"none": {}}}},
            "properties": [{"name": "t", "dataType": ["text"]}],
        }
    )
    made = (await rest.get(f"/schema/{name}")).json()
    assert made["multiTenancyConfig"] == {"enabled": False, "autoTenantCreation": False, "autoTenantActivation": False}
    assert made["invertedIndexConfig"]["stopwords"] == {"preset": "en", "additions": None, "removals": None}
    assert made["invertedIndexConfig"]["bm25"] == {"k1": 1.2, "b": 0.75}
    assert made["replicationConfig"] == {"factor": 1, "asyncEnabled": False, "deletionStrategy": "TimeBasedResolution"}
    assert made["vectorConfig"]["default"]["vectorIndexType"] == "hnsw"
    assert made["properties"] == [
        {
            "name": "t",
            "dataType": ["text"],
            "tokenization": "word",
            "indexFilterable": True,
            "indexSearchable": True,
            "indexRangeFilters": False,
        }
    ]


async def test_the_largest_message_is_a_hundred_megabytes(rest):
    assert (await rest.get("/meta")).json()["grpcMaxMessageSize"] == 104_858_000


async def test_more_copies_than_nodes_and_an_index_that_needs_more_are_refused(client, name):
    with pytest.raises(UnexpectedStatusCodeError, match="not find enough weaviate nodes for replication: 1 available"):
        await client.collections.create_from_dict({**schema(name), "replicationConfig": {"factor": 3}})
    with pytest.raises(UnexpectedStatusCodeError, match="only be created when async indexing is enabled"):
        await client.collections.create_from_dict(schema(name, vector_index="dynamic"))


# --- tenants ----------------------------------------------------------------------------------------------------------


async def test_case_of_tenants_matters_and_two_hundred_and_fifty_go_in_one_call(everyone):
    await everyone.tenants.create(
        [Tenant(name=each) for each in ("ACME", "a-b", "a_b", *(f"t{n}" for n in range(250)))]
    )
    found = await everyone.tenants.get()
    assert {"acme", "ACME", "a-b", "a_b", "t249"} <= found.keys() and len(found) == 255
    assert await everyone.tenants.exists("acme") and not await everyone.tenants.exists("Acme")


@pytest.mark.parametrize("bad", ["a b", "a.b", "a" * 65, "ä"])
async def test_tenants_of_another_shape_are_refused(everyone, bad):
    with pytest.raises(UnexpectedStatusCodeError, match=r"is not a valid tenant name. should only contain") as refused:
        await everyone.tenants.create([Tenant(name="fine"), Tenant(name=bad)])
    assert refused.value.status_code == 422 and not await everyone.tenants.exists("fine")


async def test_a_removed_tenant_refuses_writes_and_is_empty_when_it_is_made_anew(everyone, acme):
    await acme.data.insert_many([one(1)])
    await everyone.tenants.remove(["acme"])
    await everyone.tenants.remove(["acme", "never"])  # no error
    with pytest.raises(WeaviateInsertManyAllFailedError, match='tenant not found: "acme"'):
        await acme.data.insert_many([one(1)])
    await everyone.tenants.create(["acme"])
    assert await ids(acme) == []


async def test_an_unknown_tenant_says_so_everywhere(everyone, rest, name):
    nope = everyone.with_tenant("nope")
    words = 'tenant not found: "nope"'
    with pytest.raises(WeaviateInsertManyAllFailedError, match=words):
        await nope.data.insert_many([one(1)])
    for call in (
        nope.query.near_vector([1, 0, 0], limit=1),
        nope.query.bm25("a", query_properties=["terms"], limit=1),
        nope.query.fetch_objects(limit=1),
        nope.aggregate.over_all(total_count=True),
    ):
        with pytest.raises(WeaviateQueryError, match=words):
            await call
    with pytest.raises(WeaviateDeleteManyError, match=words):
        await nope.data.delete_many(where=Filter.by_property("user").equal("u"))
    for call in (
        nope.data.delete_by_id(number(1)),
        nope.data.insert({"user": "u"}, uuid=number(1), vector={"default": [1.0]}),
    ):
        with pytest.raises(UnexpectedStatusCodeError, match="tenant not found") as refused:
            await call
        assert refused.value.status_code == 422
    asked = await rest.get(f"/objects/{name}/{number(1)}", params={"tenant": "nope"})
    assert asked.status_code == 422 and "tenant not found" in asked.text


async def test_a_sleeping_tenant_wakes_by_itself_for_a_query_a_write_and_a_delete(everyone, acme):
    async def state():
        return (await everyone.tenants.get())["acme"].activity_status

    await acme.data.insert_many([one(1)])
    for wake in (
        lambda: acme.query.near_vector([1, 0, 0], limit=1),
        lambda: acme.data.insert_many([one(2)]),
        lambda: acme.data.delete_many(where=Filter.by_id().contains_any([number(2)])),
        lambda: acme.aggregate.over_all(total_count=True),
    ):
        await everyone.tenants.deactivate("acme")
        assert await state() is TenantActivityStatus.INACTIVE
        await wake()
        assert await state() is TenantActivityStatus.ACTIVE
    assert await ids(acme) == [1]


async def test_without_waking_by_itself_a_sleeping_tenant_says_so(client, name):
    await client.collections.create_from_dict(schema(name, autoTenantActivation=False))
    everyone = client.collections.use(name)
    await everyone.tenants.create([Tenant(name="acme")])
    acme = everyone.with_tenant("acme")
    await acme.data.insert_many([one(1)])
    await everyone.tenants.deactivate("acme")
    words = "tenant not active: 'acme'"
    with pytest.raises(WeaviateQueryError, match=words):
        await acme.query.near_vector([1, 0, 0], limit=1)
    with pytest.raises(WeaviateInsertManyAllFailedError, match=words):
        await acme.data.insert_many([one(1)])
    with pytest.raises(WeaviateDeleteManyError, match=words):
        await acme.data.delete_many(where=Filter.by_id().equal(number(1)))
    with pytest.raises(UnexpectedStatusCodeError, match="tenant not active"):
        await acme.data.delete_by_id(number(1))


async def test_creating_a_sleeping_tenant_again_leaves_it_asleep_and_it_can_be_removed(everyone):
    await everyone.tenants.deactivate("acme")
    await everyone.tenants.create([Tenant(name="acme")])
    assert (await everyone.tenants.get())["acme"].activity_status is TenantActivityStatus.INACTIVE
    await everyone.tenants.remove(["acme"])
    assert not await everyone.tenants.exists("acme")


async def test_unknown_tenants_cannot_be_put_to_sleep_and_none_can_be_offloaded(everyone):
    with pytest.raises(UnexpectedStatusCodeError, match="shard not found: nope"):
        await everyone.tenants.deactivate("nope")
    with pytest.raises(UnexpectedStatusCodeError, match="offload-s3 module is not enabled"):
        await everyone.tenants.offload("acme")
