"""What can be known of the copies of a partition, when there are several.

A search, and the filter of a filtered delete, look at one copy. Consistency ALL is satisfied with fewer as soon as the cluster has
given up a node that went (seen after six seconds), and a node lists a shard only while it is awake there. So nodes are counted,
and each is asked by name.
"""

import uuid
from collections.abc import Sequence
from functools import partial

from memory.errors import Unavailable
from storage.index.weaviate.connection import NAME, Connection, Meaning, each, meaning_of
from storage.index.weaviate.placements import Place

_AT_ONCE = 16


async def healthy_nodes(connection: Connection, factor: int) -> list[str]:
    """Their names. Unavailable where there are fewer than copies."""
    answer = await connection.get("/nodes")
    if answer.status_code != 200:
        raise Unavailable(NAME)
    names = [node["name"] for node in answer.json().get("nodes") or [] if node.get("status") == "HEALTHY"]
    if len(names) < factor:
        raise Unavailable(NAME)
    return names


async def held(connection: Connection, place: Place, factor: int, ids: Sequence[uuid.UUID]) -> set[uuid.UUID]:
    """Those of `ids` that any copy has, each node asked by name. Unavailable unless `factor` nodes have answered for each of them.
    Nothing where there is no such partition."""
    nodes = await healthy_nodes(connection, factor)

    async def asked(node: str, one: uuid.UUID) -> int | None:
        path = f"/objects/{place.collection}/{one}"
        answer = await connection.get(path, {"tenant": place.tenant, "node_name": node})
        if answer.status_code in (200, 404):
            return answer.status_code
        return 404 if meaning_of(answer.text) is Meaning.NO_PARTITION else None

    answers = await each([partial(asked, node, one) for one in ids for node in nodes], _AT_ONCE)
    found = set()
    for n, one in enumerate(ids):
        of_nodes = answers[n * len(nodes) : (n + 1) * len(nodes)]
        if 200 in of_nodes:
            found.add(one)
        elif len(nodes) - of_nodes.count(None) < factor:
            raise Unavailable(NAME)
    return found
