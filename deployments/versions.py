"""Which embedding model the index is of: what a start with a model may do, by what the records say there is (P18)."""

from dataclasses import asdict
from datetime import datetime
from typing import Any, Protocol

from deployments.placements import place_as_wanted
from memory.encoding import ModelCard
from memory.errors import ConfigError
from memory.scope import system_scope
from storage.index.blind import BlindIndex
from storage.protocols import IndexVersion, PlacementStore, Records, TenantStore, VersionState, VersionStore


class IndexStore(VersionStore, PlacementStore, Protocol):
    """What the records know of indexes."""


def details_of(card: ModelCard) -> dict[str, Any]:
    """What identifies a model, as it is kept with its version: name, dimension, prefixes, the digest of its means."""
    return asdict(card)


def check_details(version: IndexVersion, card: ModelCard) -> None:
    """ConfigError where a model that calls itself the version's is another one."""
    wanted = details_of(card)
    differing = [name for name, value in wanted.items() if version.details.get(name, value) != value]
    if version.dimension != card.dimension and "dimension" not in differing:
        differing.append("dimension")
    if differing:
        raise ConfigError(
            "embedder.model",
            f"the index {version.model_key} was made with another {', '.join(sorted(differing))}; put that model back, "
            f"or re-embed with `strata reindex --model {card.name}`",
        )


async def begin(versions: IndexStore, records: Records, tenants: TenantStore, card: ModelCard, now: datetime) -> bool:
    """For a start with this model: its version is active from now on. True where it was not before. ConfigError where the entries
    were embedded by another model. Any number of replicas may start at once: each step may run twice.
    """
    system = system_scope()
    listed = await versions.versions(system)
    own = next((version for version in listed if version.model_key == card.key), None)
    active = next((version for version in listed if version.state is VersionState.ACTIVE), None)
    if own is not None:
        check_details(own, card)
        if own.state is VersionState.ACTIVE:
            return False
    if active is not None and (own is None or own.state is not VersionState.READY) and await _entries(records, tenants):
        raise ConfigError("embedder.model", _what_to_do(own, active, card))
    if own is None:
        await place_as_wanted(versions, tenants, card.key)
        own = IndexVersion(card.key, card.dimension, VersionState.READY, details_of(card), now)
        await versions.put(system, own)
    await versions.activate(system, card.key, now)
    return True


def _what_to_do(own: IndexVersion | None, active: IndexVersion, card: ModelCard) -> str:
    current = active.details.get("name", active.model_key)
    command = f"`strata reindex --model {card.name}`"
    if own is None or own.state is VersionState.BUILDING:
        state = "" if own is None else ", which is not finished"
        return (
            f"the entries were embedded by {current}, not by {card.name}; run {command}{state}, or configure {current}"
        )
    return f"the index of {card.name} was retired and has missed what came since; run {command}, which brings it up to date"


async def _entries(records: Records, tenants: TenantStore) -> bool:
    """Whether there is any entry at all."""
    for tenant in await tenants.tenants(system_scope()):
        if await records.rows_after(system_scope(tenant.id), None, 1):
            return True
    return False


async def catch_up(records: Records, tenants: TenantStore, index: BlindIndex, batch: int = 500) -> int:
    """Mark every entry that `index` lacks in its present version, so that the Curator brings it there: what was written between the
    end of a reindex and the switch. Bounded steps; may run at any time, and again. Returns how many were marked."""
    marked = 0
    for tenant in await tenants.tenants(system_scope()):
        scope, after = system_scope(tenant.id), None
        while rows := await records.rows_after(scope, after, batch):
            after = rows[-1].id
            held = await index.versions(scope, [row.id for row in rows if row.live])
            lacking = [row.id for row in rows if row.live and not row.waiting and held.get(row.id) != row.version]
            if lacking:
                marked += await records.mark(scope, lacking)
    return marked
