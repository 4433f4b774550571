"""Tenants from the command line: apply the files, list what is there, print a key."""

import asyncio
from pathlib import Path

from rich.console import Console
from rich.table import Table

from deployments.bootstrap import declare_all
from deployments.references import check_home, records_url
from deployments.serve_file import read_serve_file
from deployments.settings import StoreSettings
from deployments.tenancy import key_text, read_tenant_files
from memory.errors import ConfigError
from memory.policy import Policy
from memory.scope import system_scope
from storage.protocols import TenantRecord
from storage.records import SqlTenants, create_engine, migrate


def _folder(stores: StoreSettings, folder: Path | None) -> Path:
    chosen = folder or stores.tenants_dir
    if chosen is None:
        raise ConfigError("tenants_dir", "is not set; name a folder with --dir")
    return chosen


def apply(config: Path, folder: Path | None, console: Console) -> int:
    stores = read_serve_file(config).stores
    check_home(stores.home)
    (stores.home / "data").mkdir(exist_ok=True, mode=0o700)
    tenants = read_tenant_files(_folder(stores, folder))
    migrate(records_url(stores))
    changed = asyncio.run(declare_all(stores, tenants))
    for tenant_id, differs in changed.items():
        console.print(f"{tenant_id}: {'[green]applied[/green]' if differs else 'unchanged'}")
    return 0


def show(config: Path, console: Console) -> int:
    stores = read_serve_file(config).stores

    async def read() -> list[TenantRecord]:
        engine = create_engine(records_url(stores))
        try:
            return await SqlTenants(engine).tenants(system_scope())
        finally:
            await engine.dispose()

    migrate(records_url(stores))
    table = Table("tenant", "name", "version", "model", "budget", "state")
    for tenant in asyncio.run(read()):
        prompt = Policy.model_validate(tenant.policy).prompt
        state = "suspended" if tenant.suspended else "active"
        table.add_row(
            tenant.id, tenant.display_name, str(tenant.version), prompt.model, str(prompt.budget_tokens), state
        )
    console.print(table)
    return 0


def key(config: Path, tenant_id: str, name: str | None) -> int:
    stores = read_serve_file(config).stores
    folder = _folder(stores, None)
    for tenant in read_tenant_files(folder):
        if tenant.id != tenant_id:
            continue
        for candidate in tenant.keys:
            if name in (None, candidate.name):
                print(key_text(candidate, stores.home))
                return 0
        raise ConfigError(
            str(folder), f"tenant {tenant_id} has no key of that name; it has {[k.name for k in tenant.keys]}"
        )
    raise ConfigError(str(folder), f"no file declares a tenant `{tenant_id}`")
