"""The two tiers, chosen as an operator chooses them: by the Serve file, with addresses and secrets in the environment."""

import asyncio
import base64
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import redis
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from deployments.serve_file import read_serve_file
from storage.records import migrate
from storage.records.schema import metadata
from tests.standin.running import standin

PRODUCTION = Path(__file__).resolve().parents[2] / "configs" / "production.yaml"
SESSIONS_DB = 7
"""Of the Redis that the whole run shares: nothing else is kept there, so that each test may begin with an empty one."""

Settings = dict[str, Any]
"""Of StoreSettings, home aside."""


def environment(sessions_url: str, records_url: str, weaviate: str) -> dict[str, str]:
    """What configs/production.yaml refers to. `weaviate` is http://host:port,grpc-port."""
    http, _, port = weaviate.rpartition(",")
    own = ("STRATA_MASTER_KEY", "STRATA_TOKEN_KEY", "STRATA_PEPPER", "STRATA_RECEIPT_KEY")
    return {
        "STRATA_SESSIONS_URL": sessions_url,
        "STRATA_RECORDS_URL": records_url,
        "STRATA_WEAVIATE_HTTP": http,
        "STRATA_WEAVIATE_GRPC": f"{urlsplit(http).hostname}:{port}",
        "STRATA_WEAVIATE_KEY": "unused",
        **{name: base64.b64encode(os.urandom(32)).decode() for name in own},
    }


def production(sessions_url: str, records_url: str, weaviate: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The file's stores, with collections of this test's own on a server that asks for no key."""
    for name, value in environment(sessions_url, records_url, weaviate).items():
        monkeypatch.setenv(name, value)
    stores = read_serve_file(PRODUCTION).stores
    assert stores.index != "local"
    index = stores.index.model_copy(update={"api_key": None, "collection": f"E{secrets.token_hex(6)}"})
    chosen = stores.model_copy(update={"index": index})
    return {name: getattr(chosen, name) for name in ("sessions_url", "records_url", "index", "secrets")}


@contextmanager
def own_database(url: str) -> Iterator[str]:
    """A migrated database on the server at `url`, dropped afterwards."""
    name = f"e2e_{secrets.token_hex(6)}"
    _run(url, f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    own = make_url(url).set(database=name).render_as_string(hide_password=False)
    try:
        migrate(own)
        yield own
    finally:
        _run(url, f"DROP DATABASE {name}")


def emptied(url: str) -> str:
    """The same database without a row in it: quicker than another one."""
    tables = [f"DELETE FROM {table.name}" for table in reversed(metadata.sorted_tables)]
    _run(url, "SET FOREIGN_KEY_CHECKS = 0", *tables)
    return url


def _run(url: str, *statements: str) -> None:
    async def work() -> None:
        engine = create_async_engine(url, poolclass=NullPool)
        async with engine.begin() as connection:
            for statement in statements:
                await connection.execute(text(statement))
        await engine.dispose()

    asyncio.run(work())


def empty_sessions(url: str) -> str:
    own = urlsplit(url)._replace(path=f"/{SESSIONS_DB}").geturl()
    with redis.Redis.from_url(own) as client:
        client.flushdb()
    return own


@contextmanager
def weaviate_server() -> Iterator[str]:
    """The real one that STRATA_TEST_WEAVIATE names, else the stand-in."""
    if real := os.environ.get("STRATA_TEST_WEAVIATE"):
        yield real
        return
    with standin() as address:
        yield address


def drop_collections(weaviate: str, prefix: str) -> None:
    """What a test has made on a server that lives on."""
    http = weaviate.rpartition(",")[0]
    with httpx.Client(base_url=f"{http}/v1", timeout=60, trust_env=False) as rest:
        for made in rest.get("/schema").json().get("classes") or ():
            if made["class"].startswith(f"{prefix}_"):
                rest.delete(f"/schema/{made['class']}")
