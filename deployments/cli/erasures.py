"""`strata tenants erase` and `strata receipts show`: everything of a tenant gone, and the proof of an erasure."""

import asyncio
import json
from datetime import UTC
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from deployments.edge.answers import receipt_json
from deployments.flows.erasing import erase_tenant
from deployments.serve_file import read_serve_file
from deployments.services import utc_now
from deployments.settings import StoreSettings
from deployments.stores import open_stores
from deployments.tenancy import read_tenant_files
from memory.errors import ConfigError, NotFound
from memory.ids import TenantId, checked_id
from memory.scope import Grant, Scope

POLL_S = 0.5


def erase(config: Path, tenant: str, confirm: str, wait: bool, console: Console) -> int:
    """The order, and the fence with it; the running Strata carries it out."""
    settings = read_serve_file(config).stores
    tenant_id = TenantId(checked_id(tenant, "tenant"))
    if confirm != tenant:
        raise ConfigError("--confirm", f"must repeat the tenant's id: everything of `{tenant}` goes, for good")
    if settings.tenants_dir is not None:
        for file in read_tenant_files(settings.tenants_dir):
            if file.id == tenant:
                raise ConfigError(str(settings.tenants_dir), f"still declares `{tenant}`; take its file away first")

    async def work() -> Any:
        async with open_stores(settings) as stores:
            receipt = await erase_tenant(stores.records, tenant_id, "command line", utc_now())
            while wait and receipt.completed_at is None:
                await asyncio.sleep(POLL_S)
                receipt = await stores.records.receipt(_whole(tenant_id), receipt.id)
            return receipt_json(receipt, UTC, stores.secrets.receipts)

    with console.status(f"Erasing {tenant} ..."):
        document = asyncio.run(work())
    _print(document, console)
    if document["completed_at"] is None:
        console.print(
            f"Ordered; the running Strata carries it out. strata receipts show {document['id']} --tenant {tenant}",
            highlight=False,
        )
    return 0


def show(config: Path, tenant: str, receipt_id: str, as_json: bool, console: Console) -> int:
    settings = read_serve_file(config).stores
    document = asyncio.run(_read(settings, TenantId(checked_id(tenant, "--tenant")), receipt_id))
    if as_json:
        print(json.dumps(document, ensure_ascii=False, indent=1))
    else:
        _print(document, console)
    return 0


async def _read(settings: StoreSettings, tenant_id: TenantId, receipt_id: str) -> Any:
    async with open_stores(settings) as stores:
        try:
            receipt = await stores.records.receipt(_whole(tenant_id), checked_id(receipt_id, "receipt"))
        except NotFound:
            raise ConfigError(receipt_id, f"tenant {tenant_id} has no such receipt") from None
        return receipt_json(receipt, UTC, stores.secrets.receipts)


def _whole(tenant_id: TenantId) -> Scope:
    return Scope(tenant_id, grants=frozenset({Grant.ADMIN}))


def _print(document: Any, console: Console) -> None:
    state = f"complete {document['completed_at']}" if document["completed_at"] else "pending"
    console.print(f"{document['id']}: {document['action']}, {document['count']} entries, {state}", highlight=False)
    table = Table("store", "before", "after", "method", "at")
    for name, store in document["stores"].items():
        after = "" if store["after"] is None else str(store["after"])
        table.add_row(name, str(store["before"]), after, store["method"], store["at"] or "")
    console.print(table)
    if document["signature"]:
        console.print("Signed; `--json` prints the signature.")
