"""What can be known of the copies of a shard, when there are several.

A search, and the filter of a filtered delete, look at one replica; consistency ALL is satisfied with fewer as soon as the others
have given up a node that went (seen after six seconds). So copies are counted, and asked by name.
"""

import asyncio
import uuid
from collections.abc import Sequence

from memory.errors import Unavailable
from storage.index.weaviate.connection import NAME, Connection, Meaning, meaning_of
from storage.index.weaviate.placements import Place

_AT_ONCE = 16


async def nodes_of(connection: Connection, place: Place, factor: int) -> list[str]:
    """The names of the nodes that hold a copy; [] where there is no such partition. Unavailable unless all `factor` of them are up."""
    answer = await connection.get(f"/nodes/{place.collection}", {"output": "verbose", "shardName": place.tenant})
    if answer.status_code in (404, 422) or meaning_of(answer.text) is Meaning.NO_PARTITION:
        return []
    if answer.status_code != 200:
        raise Unavailable(NAME)
    nodes = answer.json().get("nodes") or []
    names = [
        node["name"]
        for node in nodes
        if node.get("status") == "HEALTHY" and any(shard["name"] == place.tenant for shard in node.get("shards") or [])
    ]
    if len(names) < factor:
        raise Unavailable(NAME)
    return names


async def held(connection: Connection, place: Place, nodes: Sequence[str], ids: Sequence[uuid.UUID]) -> set[uuid.UUID]:
    """Those of `ids` that any of `nodes` has, each asked by name. Unavailable unless each has answered for each."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def asked(node: str, one: uuid.UUID) -> uuid.UUID | None:
        async with gate:
            answer = await connection.get(
                f"/objects/{place.collection}/{one}", {"tenant": place.tenant, "node_name": node}
            )
        if answer.status_code == 200:
            return one
        if answer.status_code == 404 or meaning_of(answer.text) is Meaning.NO_PARTITION:
            return None
        raise Unavailable(NAME)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(asked(node, one)) for node in nodes for one in ids]
    return {found for task in tasks if (found := task.result()) is not None}
