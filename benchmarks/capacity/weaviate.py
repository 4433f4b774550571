"""Weaviate's side of the cost: bytes on its disk, memory of a tenant that is awake. Its data folder and process are on this machine."""

import asyncio
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.capacity.servers import server_process
from benchmarks.capacity.sizes import MODEL_KEY, PER_USER, Texts, folder_bytes, index_entries, samples
from benchmarks.stores.vectors import DIMENSION, KeysInMemory
from memory.ids import TenantId
from memory.scope import Scope
from storage.index.blind import BlindIndex, KeyRing
from storage.index.weaviate.index import WeaviateIndex
from storage.index.weaviate.settings import WeaviateSettings
from storage.keys import MasterKey

TENANTS = 300
"""Awake at once, of 100 entries each."""
SETTLE_S = 3.0


def sizes(address: str, data: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """`address`: http://host:port,grpc-port of a server of one's own without other load. RuntimeError where its process is not here."""
    http, _, grpc_port = address.rpartition(",")
    host = http.split("://")[1].rsplit(":", 1)[0]
    name = f"StrataSize{secrets.token_hex(3)}"
    settings = WeaviateSettings(http=http, grpc=f"{host}:{grpc_port}", collection=name)
    return asyncio.run(_measured(settings, http, data, samples(2000), say))


async def _measured(
    settings: WeaviateSettings, http: str, data: Path, texts: dict[str, Texts], say: Callable[[str], None]
) -> dict[str, Any]:
    process = server_process(http)
    if process is None:
        raise RuntimeError(f"no process on this machine listens at {http}")
    index = WeaviateIndex(settings, None, MODEL_KEY, DIMENSION, 60.0)
    blind = BlindIndex(index, KeyRing(KeysInMemory(), MasterKey(secrets.token_bytes(32))))
    scopes: list[Scope] = []

    async def tenant(name: str) -> Scope:
        scopes.append(Scope(TenantId(name)))
        await index.ensure_tenant(scopes[-1])
        return scopes[-1]

    try:
        await index.check()
        await tenant("first")
        empty_mb = process.memory_info().rss / 2**20
        found: dict[str, Any] = {"empty_mb": round(empty_mb), "awake_at_most": settings.active_tenants}
        before = await _disk(data)
        for number in range(20):
            await tenant(f"empty{number}")
        found["partition_bytes"] = round((await _disk(data) - before) / 20)
        for length, sample in texts.items():
            say(f"{len(sample.texts):,} {length} entries")
            before = await _disk(data)
            await index_entries(blind, await tenant(length), sample)
            found[length] = {"tokens": sample.tokens, "bytes": round((await _disk(data) - before) / len(sample.texts))}
        few = Texts(texts["short"].texts[:PER_USER], texts["short"].tokens)
        memory = process.memory_info().rss
        for number in range(TENANTS):
            await index_entries(blind, await tenant(f"t{number}"), few)
            if (number + 1) % 100 == 0:
                say(f"{number + 1} tenants")
        await asyncio.sleep(SETTLE_S)
        found["tenant_memory_kb"] = round((process.memory_info().rss - memory) / TENANTS / 1024)
        found |= {"tenants": TENANTS, "tenant_entries": PER_USER}
        found["entries"] = TENANTS * PER_USER + sum(len(sample.texts) for sample in texts.values())
        return found
    finally:
        for scope in scopes:
            await index.drop_tenant(scope)
        await index.aclose()


async def _disk(data: Path) -> int:
    """When what was written had time to reach the disk."""
    await asyncio.sleep(SETTLE_S)
    return await asyncio.to_thread(folder_bytes, data)
