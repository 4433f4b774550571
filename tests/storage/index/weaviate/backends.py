"""Indexes with names of their own on the Weaviate that these tests speak to (see tests/standin/running.py)."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx

from storage.index.weaviate.index import WeaviateIndex
from storage.index.weaviate.settings import WeaviateSettings

MODEL = "test_model_32_0123456789"
DIMENSION = 32


def settings_of(address: str, **changes: Any) -> WeaviateSettings:
    """`address` as the environment has it; a prefix that no other test uses."""
    http, _, port = address.rpartition(",")
    about = {"http": http, "grpc": f"{urlsplit(http).hostname}:{port}", "collection": f"T{secrets.token_hex(6)}"}
    return WeaviateSettings(**{**about, **changes})


@asynccontextmanager
async def opened(settings: WeaviateSettings, **options: Any) -> AsyncIterator[WeaviateIndex]:
    """One of this test's model; only the index is closed at the end."""
    index = WeaviateIndex(settings, None, MODEL, **{"dimension": DIMENSION, "deadline_s": 20.0, **options})
    try:
        yield index
    finally:
        await index.aclose()


async def wipe(settings: WeaviateSettings) -> None:
    """What a test has made on the server."""
    async with httpx.AsyncClient(base_url=f"{settings.http}/v1", timeout=60, trust_env=False) as rest:
        classes = (await rest.get("/schema")).json().get("classes") or []
        for made in classes:
            if made["class"].startswith(f"{settings.collection}_"):
                await rest.delete(f"/schema/{made['class']}")
