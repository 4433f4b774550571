"""`strata tenants move`: a tenant's entries to a collection of its own, or back to its shard of the shared one."""

import asyncio
from pathlib import Path

from rich.console import Console

from deployments.cli.bars import bar
from deployments.indexes import weaviate_index
from deployments.moving import move
from deployments.placements import Placements
from deployments.serve_file import read_serve_file
from deployments.stores import open_stores
from memory.ids import TenantId, checked_id
from memory.policy import Isolation, Policy
from memory.scope import system_scope


def run(config: Path, tenant: str, target: Isolation, console: Console) -> int:
    """In every version's index. Killed on the way: run it again, it goes on there."""
    file = read_serve_file(config)
    settings, tenant_id = file.stores, TenantId(checked_id(tenant, "tenant"))
    if settings.index == "local":
        console.print("The local index keeps each tenant in a file of its own: there is nothing to move.")
        return 0
    settle_s = 2 * settings.policy_poll_s + settings.deadlines.index_s
    with bar(console, "moving") as watch:

        async def work() -> tuple[bool, Policy]:
            moved = False
            async with open_stores(settings) as stores:
                record = await stores.tenants.tenant(system_scope(), tenant_id)
                for version in await stores.versions.versions(system_scope()):
                    key, placements = version.model_key, Placements(stores.versions, version.model_key)
                    index = weaviate_index(settings, key, version.dimension, placements)
                    try:
                        await placements.refresh()
                        moved |= await move(stores.versions, index, key, tenant_id, target, settle_s, watch)
                    finally:
                        await index.aclose()
                return moved, Policy.model_validate(record.policy)

        moved, policy = asyncio.run(work())
    console.print(f"{tenant} {'is now' if moved else 'was already'} in a {target.value} of its own.", highlight=False)
    if policy.isolation is not target:
        console.print(f"Its policy still says `isolation: {policy.isolation.value}`; set it to {target.value}.")
    return 0
