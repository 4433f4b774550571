"""The collection's configuration: made explicitly, compared whole, never mended without a word."""

import asyncio
import json

import httpx
import pytest

from memory.errors import ConfigError, NotFound
from memory.ids import MemoryId, TenantId
from memory.lexical import CONTEXT_WEIGHT, K1
from memory.scope import system_scope
from storage.index.weaviate import collection
from tests.contract.index_backends import asking, scope, sealed, unit
from tests.standin.running import standin
from tests.storage.index.weaviate.backends import DIMENSION, MODEL, opened, settings_of

pytestmark = pytest.mark.asyncio

SETTINGS = settings_of("http://127.0.0.1:1,2")


def wanted(kind: str = "flat", **changes):
    return collection.wanted(
        "Some_name", MODEL, DIMENSION, kind, SETTINGS.model_copy(update=changes), changes.get("tenant")
    )


def changed(path: str, value):
    have = json.loads(json.dumps(wanted()))
    part = have
    *steps, last = path.split(".")
    for step in steps:
        part = part[step]
    part[last] = value
    return have


ALTERED = [
    ("description", "made by hand"),
    ("multiTenancyConfig.enabled", False),
    ("multiTenancyConfig.autoTenantCreation", True),
    ("multiTenancyConfig.autoTenantActivation", False),
    ("invertedIndexConfig.stopwords.preset", "en"),
    ("invertedIndexConfig.stopwords.additions", ["tea"]),
    ("invertedIndexConfig.bm25.k1", 1.2),
    ("invertedIndexConfig.bm25.b", 0.5),
    ("replicationConfig.factor", 3),
    ("replicationConfig.deletionStrategy", "NoAutomatedResolution"),
    ("vectorConfig.default.vectorIndexType", "hnsw"),
    ("vectorConfig.default.vectorIndexConfig.distance", "l2-squared"),
    ("vectorConfig.default.vectorIndexConfig.rq.enabled", True),
]


@pytest.mark.parametrize(("path", "value"), ALTERED)
async def test_every_difference_is_named(path, value):
    found = list(collection.differences(wanted(), changed(path, value)))
    assert len(found) == 1 and found[0].startswith(path)


@pytest.mark.parametrize("number", range(4))
async def test_a_property_otherwise_missing_or_one_too_many_is_named(number):
    name = wanted()["properties"][number]["name"]
    have = wanted()
    have["properties"][number]["tokenization"] = "word"
    assert [found.split(" ")[0] for found in collection.differences(wanted(), have)] in (
        [f"property.{name}.tokenization"],
        [],  # a number has none
    )
    have = wanted()
    have["properties"][number]["dataType"] = ["boolean"]
    assert [found.split(" ")[0] for found in collection.differences(wanted(), have)] == [f"property.{name}.dataType"]
    have = wanted()
    del have["properties"][number]
    assert any(found.startswith(f"property.{name}.") for found in collection.differences(wanted(), have))
    have = wanted()
    have["properties"].append({"name": "added", "dataType": ["text"]})
    assert list(collection.differences(wanted(), have)) == ["property.added is one too many"]


async def test_another_vectorizer_is_named():
    have = changed("vectorConfig.default.vectorizer", {"text2vec-openai": {}})
    assert list(collection.differences(wanted(), have)) == [
        "vectorConfig.default.vectorizer.none is missing",
        "vectorConfig.default.vectorizer.text2vec-openai is one too many",
    ]


async def test_one_more_vector_is_named():
    have = changed("vectorConfig.second", {"vectorIndexType": "flat"})
    assert list(collection.differences(wanted(), have)) == ["vectorConfig.second is one too many"]


async def test_what_a_server_leaves_out_or_adds_is_no_difference():
    have = json.loads(json.dumps(wanted()))
    del have["invertedIndexConfig"]["indexNullState"]  # false is left out
    have["invertedIndexConfig"]["usingBlockMaxWAND"] = True
    have["vectorConfig"]["default"]["vectorIndexConfig"]["rq"] = {"enabled": False, "bits": 8}
    have["shardingConfig"] = {"virtualPerPhysical": 0}
    assert list(collection.differences(wanted(), have)) == []


async def test_terms_weigh_as_in_the_rules():
    """One term of the entry's own counts like OWN_REPEATS of the turn before, and k1 grows with it: BM25 is the same but for a factor."""
    assert collection.OWN_REPEATS * CONTEXT_WEIGHT == 1
    assert wanted()["invertedIndexConfig"]["bm25"]["k1"] == K1 * collection.OWN_REPEATS


@pytest.mark.parametrize("factor", [1, 3])
async def test_several_copies_compare_themselves_and_let_the_later_one_win(factor):
    assert wanted(replication_factor=factor)["replicationConfig"] == {
        "factor": factor,
        "asyncEnabled": factor > 1,
        "deletionStrategy": "TimeBasedResolution",
    }


# --- on a server ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
async def test_what_was_made_is_found_equal(settings, kind):
    async with opened(settings.model_copy(update={"vector_index": kind})) as index:
        await index.check()  # nothing is there yet
        await index.ensure_tenant(scope())
        await index.check()
        await index.ensure_place(system_scope(TenantId("acme")), "collection")
        await index.check()
    other = {"flat": "hnsw", "hnsw": "flat"}[kind]
    async with opened(settings.model_copy(update={"vector_index": other})) as index:
        with pytest.raises(ConfigError, match="vectorIndexType"):
            await index.check()
        with pytest.raises(ConfigError, match="vectorIndexType"):  # nor is it taken for made when it is to be made
            await collection_made(index)


async def collection_made(index):
    async def work(client):
        await collection.create(index._connection, client, index._wanted(index._places.shared, None))

    await index._connection.run(work)


async def test_p18_another_dimension_under_the_same_name_stops_the_start(settings):
    async with opened(settings) as index:
        await index.ensure_tenant(scope())
    async with opened(settings, dimension=16) as index:
        with pytest.raises(ConfigError, match="description") as error:
            await index.check()
    assert "strata reindex" in str(error.value) and "\n" not in str(error.value)


async def test_a_property_that_somebody_added_stops_the_start(settings):
    async with opened(settings) as index:
        await index.ensure_tenant(scope())
        async with httpx.AsyncClient(base_url=f"{settings.http}/v1", trust_env=False) as rest:
            answer = await rest.post(
                f"/schema/{index._places.shared}/properties", json={"name": "note", "dataType": ["text"]}
            )
            assert answer.status_code == 200
        with pytest.raises(ConfigError, match=r"property\.note is one too many"):
            await index.check()


async def test_four_that_start_at_once_make_one_collection(settings):
    indexes = [opened(settings) for _ in range(4)]
    started = [await index.__aenter__() for index in indexes]
    try:
        await asyncio.gather(*(index.ensure_tenant(scope(tenant=f"t{n}")) for n, index in enumerate(started)))
        for index in started:
            await index.check()
            assert await index.tenants(system_scope()) == {f"t{n}" for n in range(4)}
    finally:
        for index in indexes:
            await index.__aexit__(None, None, None)


async def test_a_server_that_makes_up_collections_is_refused():
    """Of a real server this was seen by hand, since it has to be started so."""
    with standin(auto_schema=True) as address:
        async with opened(settings_of(address)) as index:
            with pytest.raises(ConfigError, match="AUTOSCHEMA_ENABLED=false"):
                await index.check()
            async with httpx.AsyncClient(trust_env=False) as rest:  # and what the probe made is gone
                schema = (await rest.get(f"{address.rpartition(',')[0]}/v1/schema")).json()
            assert not schema.get("classes")


async def test_a_dynamic_index_needs_a_server_that_can(settings):
    async with opened(settings.model_copy(update={"vector_index": "dynamic"})) as index:
        try:
            await index.ensure_tenant(scope())
        except ConfigError as error:
            assert error.where == "index.vector_index" and "ASYNC_INDEXING=true" in error.fix
        else:
            await index.check()  # this server has it on


async def test_a_version_that_is_dropped_takes_its_collections_with_it(settings):
    async with opened(settings) as index:
        await index.ensure_tenant(scope())
        await index.ensure_place(system_scope(TenantId("acme")), "collection")
        await index.upsert(scope(), [sealed("m1", unit(1)[0], "tea")])
        await index.drop_collections(system_scope())
        await index.drop_collections(system_scope())
        assert await index.tenants(system_scope()) == set()
        assert await index.search(scope(), asking(unit(1)[0], "tea"), 5, 5) == []


async def test_p26_a_late_write_does_not_bring_a_dropped_collection_back(settings):
    async with opened(settings) as index, opened(settings) as late:
        await index.ensure_tenant(scope())
        await late.upsert(scope(), [sealed("m1", unit(1)[0], "tea")])
        await index.drop_collections(system_scope())
        with pytest.raises(NotFound, match="partition"):
            await late.upsert(scope(), [sealed("m2", unit(2)[1], "tea")])
        await late.remove(scope(), [MemoryId("m1")])
        assert await index.tenants(system_scope()) == set()
        await index.ensure_tenant(scope())  # begun anew, nothing of the former one is there
        assert await index.versions(scope(), [MemoryId("m1"), MemoryId("m2")]) == {}
