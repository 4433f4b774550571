"""The collection as data: everything that Weaviate lets one state is stated, so that no server's defaults decide, and compared.

One text property holds an entry's terms: its own ones `OWN_REPEATS` times, those of the turn before once. Term frequencies are then
weighed as in memory/lexical.py, and with k1 times `OWN_REPEATS` BM25 comes out as there but for a constant.
"""

import json
import secrets
from collections.abc import Iterator
from typing import Any

from weaviate import WeaviateAsyncClient
from weaviate.classes.config import ConsistencyLevel
from weaviate.classes.data import DataObject
from weaviate.exceptions import UnexpectedStatusCodeError, WeaviateBaseError

from memory.errors import ConfigError, Unavailable
from memory.ids import TenantId
from memory.lexical import CONTEXT_WEIGHT, K1, B
from storage.index.weaviate.connection import NAME, Connection, Meaning, meaning
from storage.index.weaviate.settings import WeaviateSettings

VECTOR = "default"
MEMORY_ID, USER_REF, VERSION, TERMS = "memory_id", "user_ref", "version", "terms"
LAYOUT = 1
OWN_REPEATS = round(1 / CONTEXT_WEIGHT)
"""How often an entry's own term is written for each of the turn before it."""

_OFF = {"enabled": False}
_EXACT: dict[str, Any] = {
    "distance": "cosine",
    "vectorCacheMaxObjects": 1_000_000_000_000,
    "pq": _OFF,
    "bq": _OFF,
    "sq": _OFF,
    "rq": _OFF,
    "skipDefaultQuantization": True,
}
"""Cosines of whole vectors: no quantization, whatever the server's default becomes."""
_VECTOR_INDEXES: dict[str, dict[str, Any]] = {
    "flat": _EXACT,
    "hnsw": {
        **_EXACT,
        "skip": False,
        "cleanupIntervalSeconds": 300,
        "maxConnections": 32,
        "efConstruction": 128,
        "ef": -1,
        "dynamicEfMin": 100,
        "dynamicEfMax": 500,
        "dynamicEfFactor": 8,
        "flatSearchCutoff": 40_000,
        "filterStrategy": "acorn",
    },
}
_VECTOR_INDEXES["dynamic"] = {
    "distance": "cosine",
    "threshold": 10_000,
    "flat": _VECTOR_INDEXES["flat"],
    "hnsw": _VECTOR_INDEXES["hnsw"],
}


def tenant_of(have: dict[str, Any]) -> TenantId | None:
    """Whose own collection this is, as it says itself."""
    try:
        return TenantId(json.loads(have.get("description") or "")["tenant"])
    except (ValueError, KeyError, TypeError):
        return None


def _property(
    name: str, kind: str, *, filterable: bool = False, searchable: bool = False, **more: Any
) -> dict[str, Any]:
    return {
        "name": name,
        "dataType": [kind],
        "indexFilterable": filterable,
        "indexSearchable": searchable,
        "indexRangeFilters": False,
        **more,
    }


def wanted(
    name: str,
    model_key: str,
    dimension: int,
    vector_index: str,
    settings: WeaviateSettings,
    tenant: TenantId | None = None,
) -> dict[str, Any]:
    """The schema of one collection. `tenant`: whose own it is; None: all share it. Both have tenants, so that a late write to one
    that was dropped is refused by both."""
    replicated = settings.replication_factor > 1
    about = {
        "strata": LAYOUT,
        "model": model_key,
        "dimension": dimension,
        **({} if tenant is None else {"tenant": tenant}),
    }
    return {
        "class": name,
        "description": json.dumps(about, sort_keys=True),
        "multiTenancyConfig": {"enabled": True, "autoTenantCreation": False, "autoTenantActivation": True},
        "replicationConfig": {
            "factor": settings.replication_factor,
            "asyncEnabled": replicated,
            "deletionStrategy": "TimeBasedResolution",
        },
        "invertedIndexConfig": {
            "bm25": {"k1": K1 * OWN_REPEATS, "b": B},
            "cleanupIntervalSeconds": 60,
            "stopwords": {"preset": "none", "additions": None, "removals": None},
            "indexNullState": False,
            "indexPropertyLength": False,
            "indexTimestamps": False,
        },
        "properties": [
            _property(MEMORY_ID, "text", tokenization="field"),
            _property(USER_REF, "text", filterable=True, tokenization="field"),
            _property(VERSION, "int"),
            _property(TERMS, "text", searchable=True, tokenization="whitespace"),
        ],
        "vectorConfig": {
            VECTOR: {
                "vectorizer": {"none": {}},
                "vectorIndexType": vector_index,
                "vectorIndexConfig": _VECTOR_INDEXES[vector_index],
            }
        },
    }


def differences(want: Any, have: Any, path: str = "") -> Iterator[str]:
    """Where `have` is not as wanted, as dotted paths with both values. What the server adds beyond `want` inside a part is its own
    affair (a newer server knows more knobs), but not one more property or vector."""
    if isinstance(want, dict):
        have = have if isinstance(have, dict) else {}
        for key, value in want.items():
            inner = f"{path}.{key}" if path else key
            if value == {} and key not in have:
                yield f"{inner} is missing"
            yield from differences(value, have.get(key), inner)
        if path == "vectorConfig" or path.endswith(".vectorizer"):
            yield from (f"{path}.{key} is one too many" for key in sorted(set(have) - set(want)))
    elif path == "properties":
        named = {part.get("name"): part for part in have or []}
        yield from differences({part["name"]: part for part in want}, named, "property")
        yield from (
            f"property.{name} is one too many" for name in sorted(map(str, set(named) - {p["name"] for p in want}))
        )
    elif want != have and (want or have):  # left out, null, false and 0 are one to the server
        yield f"{path} is {_short(have)}, not {_short(want)}"


def _short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return text if len(text) <= 120 else text[:117] + "..."


def compare(want: dict[str, Any], have: dict[str, Any]) -> None:
    """ConfigError naming the first difference and what to do about it."""
    for difference in differences(want, have):
        raise ConfigError(
            f"Weaviate collection {want['class']}",
            f"was made otherwise: {difference}; configure what it was made with, or name another one (index.collection) and have "
            "its entries indexed again with `strata reindex`",
        )


async def schema_of(connection: Connection) -> dict[str, dict[str, Any]]:
    """Every collection of the server by name, as the server describes it. Inside of `Connection.run`."""
    schema = await connection.get_json("/schema")
    return {found["class"]: found for found in schema.get("classes") or []}


async def create(connection: Connection, client: WeaviateAsyncClient, want: dict[str, Any]) -> None:
    """Make it where it is not there. Several at once: one makes it, the others find it and compare. Inside of `Connection.run`."""
    try:
        await client.collections.create_from_dict(want)
        return
    except UnexpectedStatusCodeError as error:
        if error.status_code != 422:
            raise
        refused = str(error)
    have = (await schema_of(connection)).get(want["class"])
    if have is not None:
        compare(want, have)
    elif "async indexing" in refused:
        raise ConfigError(
            "index.vector_index", "dynamic needs ASYNC_INDEXING=true on the Weaviate server; or use flat or hnsw"
        )
    else:
        raise Unavailable(NAME)


async def probe_auto_schema(client: WeaviateAsyncClient, prefix: str) -> None:
    """ConfigError where the server makes up collections: a late write would bring a dropped one back, in the wrong shape."""
    name = f"{prefix}_Probe{secrets.token_hex(8)}"
    probe = client.collections.use(name).with_consistency_level(ConsistencyLevel.ONE)
    try:
        await probe.data.insert_many([DataObject(properties={"probe": "1"})])
    except WeaviateBaseError as error:
        if meaning(error) is Meaning.NO_PARTITION:
            return
        raise
    await client.collections.delete(name)
    raise ConfigError("Weaviate server", "makes up collections by itself; start it with AUTOSCHEMA_ENABLED=false")
