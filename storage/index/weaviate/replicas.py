"""What can be known of the copies of a partition, when there are several.

A search, and the filter of a filtered delete, look at one copy. Consistency ALL is satisfied with fewer as soon as the cluster has
given up a node that went (seen after six seconds), and a node lists a shard only while it is awake there. So nodes are counted,
and each is asked by name. One without a copy takes many seconds to say so; those that have one answer at once.
"""

import asyncio
import uuid
from collections.abc import Sequence
from functools import partial

from memory.errors import Unavailable
from storage.index.weaviate.connection import NAME, Asleep, Connection, Meaning, each, meaning_of
from storage.index.weaviate.placements import Place

_AT_ONCE = 16
_HOLDERS_S = 1.5
_NOBODY = uuid.UUID(int=1)
"""An id that no entry has: whoever can say that it is not there has a copy."""


async def holders(connection: Connection, place: Place, factor: int) -> list[str]:
    """The names of the nodes that hold the copies, each of which has just answered. Unavailable unless all `factor` of them are
    there. The number of nodes proves nothing: one that is away is not listed, nor is how many there should be."""
    listed = (await connection.get_json("/nodes")).get("nodes") or []
    nodes = [node["name"] for node in listed if node.get("status") == "HEALTHY"]
    if len(nodes) < factor:
        raise Unavailable(NAME)
    tasks = {asyncio.create_task(_has(connection, place, node, _NOBODY)): node for node in nodes}
    found: list[str] = []
    until = asyncio.get_running_loop().time() + _HOLDERS_S
    try:
        waiting = set(tasks)
        while waiting and len(found) < factor:
            done, waiting = await asyncio.wait(
                waiting,
                timeout=max(0.0, until - asyncio.get_running_loop().time()),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not done:
                break
            found += [tasks[task] for task in done if task.result() is not None]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if len(found) < factor:
        raise Unavailable(NAME)
    return found


async def held(connection: Connection, place: Place, factor: int, ids: Sequence[uuid.UUID]) -> set[uuid.UUID]:
    """Those of `ids` that any copy has, each asked by name. Unavailable unless each has answered for each of them. Nothing where
    there is no such partition."""
    nodes = await holders(connection, place, factor)
    asked = [(one, partial(_has, connection, place, node, one)) for one in ids for node in nodes]
    answers = await each([ask for _, ask in asked], _AT_ONCE)
    if None in answers:
        raise Unavailable(NAME)
    return {one for (one, _), answer in zip(asked, answers, strict=True) if answer}


async def _has(connection: Connection, place: Place, node: str, one: uuid.UUID) -> bool | None:
    """None where `node` cannot say."""
    path = f"/objects/{place.collection}/{one}"
    answer = await connection.get(path, {"tenant": place.tenant, "node_name": node})
    if answer.status_code in (200, 404):
        return answer.status_code == 200
    meant = meaning_of(answer.text)
    if meant is Meaning.ASLEEP:
        raise Asleep
    return False if meant is Meaning.NO_PARTITION else None
