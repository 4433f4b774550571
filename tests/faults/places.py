"""Databases and collections of one's own on servers that others use too."""

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import httpx
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from storage.index.weaviate.settings import WeaviateSettings


@contextmanager
def own_database(url: str | None) -> Iterator[str]:
    """The URL of a new database on that server, dropped afterwards. None: SQLite in the home."""
    if url is None:
        yield "embedded"
        return
    name = f"faults_{uuid.uuid4().hex[:12]}"
    asyncio.run(_run(url, f"CREATE DATABASE {name} CHARACTER SET utf8mb4"))
    try:
        yield make_url(url).set(database=name).render_as_string(hide_password=False)
    finally:
        asyncio.run(_run(url, f"DROP DATABASE {name}"))


async def _run(url: str, statement: str) -> None:
    engine = create_async_engine(url, poolclass=NullPool)
    try:
        async with engine.begin() as connection:
            await connection.execute(text(statement))
    finally:
        await engine.dispose()


@contextmanager
def own_collections(server: str | None) -> Iterator[Literal["local"] | WeaviateSettings]:
    """Settings under which collections have names of their own, dropped afterwards. `server` as in STRATA_TEST_WEAVIATE:
    http://host:port,grpc-port. None: the local index."""
    if server is None:
        yield "local"
        return
    http, _, grpc_port = server.partition(",")
    host: Any = httpx.URL(http).host
    prefix = f"Faults{uuid.uuid4().hex[:12]}"
    try:
        yield WeaviateSettings(http=http, grpc=f"{host}:{grpc_port}", collection=prefix)
    finally:
        for listed in httpx.get(f"{http}/v1/schema", timeout=30).json().get("classes") or ():
            if listed["class"].startswith(prefix):
                httpx.delete(f"{http}/v1/schema/{listed['class']}", timeout=30)
