"""What counts as proof that no copy has an entry. The answers are those that clusters of three and four nodes were seen to give;
test_three_nodes.py asks a real one."""

import asyncio
import uuid

import httpx
import pytest

from memory.errors import Unavailable
from memory.ids import TenantId
from storage.index.weaviate.connection import Connection
from storage.index.weaviate.placements import Place
from storage.index.weaviate.replicas import held, holders
from tests.storage.index.weaviate.backends import settings_of

pytestmark = pytest.mark.asyncio

PLACE = Place("Some", TenantId("acme"))
ONE, TWO = uuid.uuid5(uuid.NAMESPACE_OID, "one"), uuid.uuid5(uuid.NAMESPACE_OID, "two")
NEVER = object()
REFUSED = (500, 'repo: object by id: search index some: connect: Get "http://10.0.0.3:7001": connection refused')
NO_SHARD = (500, 'status code: 500, error: shard "acme" does not exist locally')
NO_TENANT = (422, 'repo: object by id: search index some: determine shard: tenant not found: "acme"')


def cluster(listed: dict[str, object], status: str = "HEALTHY") -> Connection:
    """`listed`: by node what it says to every question, or the set of ids that it has."""

    async def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/nodes":
            return httpx.Response(200, json={"nodes": [{"name": name, "status": status} for name in listed]})
        says = listed[request.url.params["node_name"]]
        assert request.url.params["tenant"] == "acme"
        if says is NEVER:
            await asyncio.Event().wait()
        if isinstance(says, set):
            return httpx.Response(200 if uuid.UUID(request.url.path.rpartition("/")[2]) in says else 404, json={})
        assert isinstance(says, tuple)
        return httpx.Response(says[0], json={"error": [{"message": says[1]}]})

    connection = Connection(settings_of("http://127.0.0.1:1,2"), None, 5.0)
    connection._rest = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    return connection


@pytest.mark.parametrize(
    ("nodes", "found"),
    [
        ({"n1": set(), "n2": set(), "n3": set()}, set()),
        ({"n1": {ONE}, "n2": {ONE}, "n3": {ONE}}, {ONE}),
        ({"n1": set(), "n2": set(), "n3": {TWO}}, {TWO}),  # one copy is enough
        ({"n1": {ONE}, "n2": {TWO}, "n3": set()}, {ONE, TWO}),
        # a fourth node without a copy takes seconds to say so, and is not waited for
        ({"n1": set(), "n2": NEVER, "n3": {ONE}, "n4": set()}, {ONE}),
        ({"n1": set(), "n2": NO_SHARD, "n3": {ONE}, "n4": set()}, {ONE}),
        ({"n1": NO_TENANT, "n2": NO_TENANT, "n3": NO_TENANT}, set()),  # no partition, nothing in it
    ],
)
async def test_every_copy_has_answered(nodes, found):
    assert await held(cluster(nodes), PLACE, 3, [ONE, TWO]) == found


@pytest.mark.parametrize(
    "nodes",
    [
        {"n1": set(), "n2": set(), "n3": REFUSED},  # died just now: still listed
        {"n1": set(), "n2": set()},  # given up by the cluster: no longer listed
        {"n1": set(), "n2": set(), "n3": NO_SHARD},  # four nodes, one gone, and it had a copy: three are listed
        {"n1": set(), "n2": set(), "n3": NEVER},
        {},
    ],
)
async def test_i3_a_copy_that_is_away_proves_nothing(nodes):
    for question in (lambda: holders(cluster(nodes), PLACE, 3), lambda: held(cluster(nodes), PLACE, 3, [ONE])):
        with pytest.raises(Unavailable):
            await question()


async def test_a_node_that_says_itself_that_it_is_not_well_does_not_count():
    with pytest.raises(Unavailable):
        await holders(cluster({"n1": set(), "n2": set(), "n3": set()}, status="UNHEALTHY"), PLACE, 3)
