"""A client of the server under test, and a collection of each test's own on it."""

import secrets

import httpx
import pytest
from weaviate.classes.tenants import Tenant

from tests.standin.facts import connected, schema
from tests.standin.running import weaviate_address


@pytest.fixture
async def client():
    async with connected(weaviate_address()) as made:
        yield made


@pytest.fixture
async def rest():
    async with httpx.AsyncClient(base_url=f"{weaviate_address().rpartition(',')[0]}/v1", trust_env=False) as made:
        yield made


@pytest.fixture
async def name(client):
    made = f"Facts{secrets.token_hex(6)}"
    yield made
    for each in await client.collections.list_all():
        if each.startswith(made):
            await client.collections.delete(each)


@pytest.fixture
async def everyone(client, name):
    """The collection, with the tenants acme and other."""
    await client.collections.create_from_dict(schema(name))
    made = client.collections.use(name)
    await made.tenants.create([Tenant(name="acme"), Tenant(name="other")])
    return made


@pytest.fixture
async def acme(everyone):
    return everyone.with_tenant("acme")
