"""Bring the records to this release's schema, or wait until somebody has: for Jobs and for pods that must not start too early."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from deployments.references import records_url
from deployments.serve_file import read_serve_file
from memory.errors import ConfigError
from storage.records import migrate
from storage.records.engine import create_engine
from storage.records.migrate import current_revision, head_revision

POLL_S = 2.0
ANSWER_S = 10.0


def run(config: Path, check: bool, wait_s: float, unreachable_s: float | None, console: Console) -> int:
    """0 when the schema is this release's. Without `check` it is made so. A database that is away is asked again for `wait_s` seconds;
    with `unreachable_s` given, after so long without an answer this gives up with 0, for whoever can start without one."""
    stores = read_serve_file(config).stores
    url = records_url(stores)
    if stores.records_url == "embedded":
        (stores.home / "data").mkdir(parents=True, exist_ok=True, mode=0o700)
    if check:
        return _await_schema(lambda: asyncio.run(_revision(url)), wait_s, unreachable_s, console)
    deadline = time.monotonic() + wait_s
    while True:
        try:
            console.print(f"The schema is {migrate(url)}.", highlight=False)
            return 0
        except ConfigError as error:
            if time.monotonic() + POLL_S > deadline:
                raise
            console.print(f"Not yet: {error}", highlight=False, markup=False)
            time.sleep(POLL_S)


def _await_schema(
    revision: Callable[[], str | None], wait_s: float, unreachable_s: float | None, console: Console
) -> int:
    needed = head_revision()
    started = answered = time.monotonic()
    told = ""
    while True:
        try:
            found = revision()
        except Exception:  # whatever a driver raises means that there was no answer
            now, says = time.monotonic(), "the database does not answer"
            if unreachable_s is not None and now - answered >= unreachable_s:
                console.print(f"{says}; going on without it.", highlight=False)
                return 0
        else:
            now = answered = time.monotonic()
            if found == needed:
                console.print(f"The schema is {needed}.", highlight=False)
                return 0
            says = f"the schema is {found or 'not there'}, this release needs {needed}"
        if now - started + POLL_S > wait_s:
            raise ConfigError("records", f"after {wait_s:.0f} s {says}: run `strata migrate`, or look at the database")
        if says != told:
            console.print(f"Waiting: {says}.", highlight=False)
            told = says
        time.sleep(POLL_S)


async def _revision(url: str) -> str | None:
    engine = create_engine(url)
    try:
        async with asyncio.timeout(ANSWER_S):
            return await current_revision(engine)
    finally:
        await engine.dispose()
