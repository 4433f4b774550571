"""Databases of a test's own."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import create_async_engine

PATIENT_S = 30.0


@asynccontextmanager
async def empty_database(server: str | None, folder: Path) -> AsyncIterator[str]:
    """The URL of an empty database on `server` (None: an SQLite file in `folder`), which goes afterwards."""
    if server is None:
        yield f"sqlite:///{folder / 'records.db'}"
        return
    name = f"test_{uuid.uuid4().hex[:12]}"
    await _execute(server, f"CREATE DATABASE {name}")
    try:
        yield make_url(server).set(database=name).render_as_string(hide_password=False)
    finally:
        forced = " WITH (FORCE)" if server.startswith("postgres") else ""
        await _execute(server, f"DROP DATABASE {name}{forced}")


async def _execute(server: str, statement: str) -> None:
    engine = create_async_engine(server, isolation_level="AUTOCOMMIT")
    try:
        async with asyncio.timeout(60), engine.connect() as connection:
            await connection.execute(text(statement))
    finally:
        await engine.dispose()
