"""What must be true before anything is served: secrets, a model, a session server, a schema, tenants. Idempotent.

`strata up` does this with progress bars; the application builders do it again in silence, so that `serve run` works alone.
Anything that is wrong stops the start with one line (ConfigError) that says what to do.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import structlog

from deployments.indexes import open_index
from deployments.references import check_home, read_secrets, records_url, sessions_url
from deployments.settings import StoreSettings
from deployments.stores import Stores, open_stores
from deployments.tenancy import TenantFile, declare, read_tenant_files
from memory.errors import NotFound, StrataError
from memory.ids import TenantId
from memory.policy import Isolation
from memory.scope import system_scope
from models.progress import Progress, silent
from storage.protocols import Placement
from storage.records import migrate

log = structlog.get_logger(__name__)


def prepare_stores(settings: StoreSettings, progress: Progress = silent) -> None:
    """Everything but the model. Safe when several processes do it at once."""
    check_home(settings.home)
    (settings.home / "data").mkdir(exist_ok=True, mode=0o700)
    _forget_former_index(settings.home)
    read_secrets(settings)
    progress("session server", 0.0)
    sessions_url(settings)
    progress("records", 0.4)
    migrate(records_url(settings))
    progress("tenants", 0.8)
    if settings.tenants_dir is not None:
        asyncio.run(declare_all(settings, read_tenant_files(settings.tenants_dir)))
    progress("ready", 1.0)


def _forget_former_index(home: Path) -> None:
    """The files of the time before each model had a folder of its own: no deletion reaches them. What was in them is indexed anew."""
    for path in (home / "index").glob("t-*.db*"):
        path.unlink(missing_ok=True)


async def declare_all(settings: StoreSettings, files: Sequence[TenantFile]) -> dict[str, bool]:
    """Tenant id -> whether anything changed. A new or changed one gets its partition in every index that there is already;
    where an index is away, the Curator makes it with the tenant's first entry."""
    async with open_stores(settings) as stores:
        await _place(stores, files)
        changed = {file.id: await declare(stores.tenants, file, settings.home, stores.secrets.pepper) for file in files}
        await _ensure(stores, [TenantId(tenant_id) for tenant_id, differs in changed.items() if differs])
        return changed


async def _place(stores: Stores, files: Sequence[TenantFile]) -> None:
    """Where a new tenant's policy wants it, known to every replica before there is anything to place."""
    versions = await stores.versions.versions(system_scope())
    placed = False
    for file in files:
        tenant_id = TenantId(file.id)
        if file.policy.isolation is Isolation.SHARD or await _declared(stores, tenant_id):
            continue
        for version in versions:
            placement = Placement(file.policy.isolation.value)
            await stores.versions.place(system_scope(tenant_id), version.model_key, placement)
            placed = True
    if placed:
        await asyncio.sleep(2 * stores.settings.policy_poll_s)


async def _declared(stores: Stores, tenant_id: TenantId) -> bool:
    try:
        await stores.tenants.tenant(system_scope(), tenant_id)
    except NotFound:
        return False
    return True


async def _ensure(stores: Stores, tenants: Sequence[TenantId]) -> None:
    for version in await stores.versions.versions(system_scope()) if tenants else ():
        try:
            opened = await open_index(
                stores.settings, stores.versions, stores.keys, version.model_key, version.dimension
            )
            try:
                for tenant_id in tenants:
                    await opened.index.ensure_tenant(system_scope(tenant_id))
            finally:
                await opened.index.aclose()
        except StrataError as error:
            log.warning("partitions_left_to_the_curator", kind=error.slug)
