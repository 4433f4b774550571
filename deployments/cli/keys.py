"""`strata keys`: the master key and users' keys, changed."""

import asyncio
import contextlib
from pathlib import Path

from rich.console import Console

from deployments.cli.bars import bar
from deployments.indexes import LiveIndexes
from deployments.rotation import rewrap as rewrap_all
from deployments.rotation import rotate as rotate_user
from deployments.serve_file import read_serve_file
from deployments.stores import open_stores
from memory.errors import ConfigError
from memory.ids import TenantId, UserId, checked_id
from memory.scope import system_scope
from storage.protocols import VersionState


def rewrap(config: Path, console: Console) -> int:
    """After a new master key was put in front of the old one: every user's key under the new one."""
    settings = read_serve_file(config).stores
    with bar(console, "wrapping") as watch:

        async def work() -> tuple[int, int]:
            async with open_stores(settings) as stores:
                return await rewrap_all(stores.records, stores.secrets.master, watch), len(stores.secrets.master.older)

        done, older = asyncio.run(work())
    console.print(f"{done} keys were wrapped anew.", highlight=False)
    if older:
        console.print("Every key is under the first master key now: the older ones may go from the secret.")
    return 0


def rotate(config: Path, tenant: str, user: str, console: Console) -> int:
    """A new key for one user; waits for the running Strata to seal his entries with it."""
    file = read_serve_file(config)
    scope = system_scope(TenantId(checked_id(tenant, "--tenant")), UserId(checked_id(user, "--user")))
    grace_s = file.memory.curator.grace_s
    with bar(console, "sealing anew") as watch:

        async def work() -> int:
            async with contextlib.AsyncExitStack() as stack:
                stores = await stack.enter_async_context(open_stores(file.stores))
                versions = await stores.versions.versions(system_scope())
                active = next((one for one in versions if one.state is VersionState.ACTIVE), None)
                if active is None:
                    raise ConfigError("keys", "there is no index yet, and so nothing sealed")
                live = await LiveIndexes.open(
                    file.stores, stores.versions, stores.keys, active.model_key, active.dimension
                )
                stack.push_async_callback(live.aclose)
                indexes = (live.active, *live.others)
                return await rotate_user(stores.records, indexes, stores.secrets.master, scope, grace_s, watch)

        entries = asyncio.run(work())
    console.print(f"{user} has a new key; {entries} entries are sealed with it.", highlight=False)
    return 0
