"""What the tables of facts are shown with: a collection of some properties, and objects numbered from 1."""

import uuid
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from weaviate import use_async_with_custom
from weaviate.classes.data import DataObject

PROPERTIES = [
    {"name": "user", "dataType": ["text"], "tokenization": "field", "indexSearchable": False},
    {"name": "terms", "dataType": ["text"], "tokenization": "whitespace", "indexFilterable": False},
    {"name": "before", "dataType": ["text"], "tokenization": "whitespace", "indexFilterable": False},
    {"name": "number", "dataType": ["int"]},
    {"name": "at", "dataType": ["date"]},
    {"name": "hidden", "dataType": ["text"], "indexFilterable": False, "indexSearchable": False},
]


def schema(name, *, vector_index="flat", properties=PROPERTIES, **tenancy):
    return {
        "class": name,
        "multiTenancyConfig": {"enabled": True, "autoTenantCreation": False, "autoTenantActivation": True, **tenancy},
        "vectorConfig": {"default": {"vectorIndexType": vector_index, "vectorizer": {"none": {}}}},
        "invertedIndexConfig": {"stopwords": {"preset": "none"}},
        "properties": properties,
    }


def number(n):
    return uuid.UUID(int=n)


def one(n, vector=(1.0, 0.0, 0.0), **properties):
    return DataObject(
        uuid=number(n), properties=properties or {"user": "u"}, vector=vector and {"default": list(vector)}
    )


@asynccontextmanager
async def connected(address):
    http, _, port = address.rpartition(",")
    url = urlsplit(http)
    async with use_async_with_custom(
        url.hostname, url.port, False, url.hostname, int(port), False, skip_init_checks=True
    ) as made:
        yield made


async def ids(collection, **about):
    answer = await collection.query.fetch_objects(**{"limit": 100, **about})
    return sorted(found.uuid.int for found in answer.objects)
