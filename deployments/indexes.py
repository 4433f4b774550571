"""The indexes that a replica holds: the one of its own model, which it answers from, and those of other models that are being
built, or are not dropped yet: what is deleted must go from these too."""

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from deployments.placements import Placements
from deployments.references import dereferenced
from deployments.settings import StoreSettings
from deployments.telemetry.stores import watched
from deployments.tenancy import secret_reference
from deployments.versions import IndexStore
from memory.errors import ConfigError, Unavailable
from memory.ids import TenantId
from memory.scope import system_scope
from storage.index.blind import BlindIndex, KeyRing
from storage.index.local import LocalIndex
from storage.protocols import VectorIndex, VersionState
from storage.secrets import read_secret

if TYPE_CHECKING:  # the client takes seconds to import, and an extra to install
    from storage.index.weaviate.index import WeaviateIndex


@dataclass(frozen=True)
class OpenIndex:
    """The index of one model, as this process has it open."""

    model_key: str
    index: BlindIndex
    backend: VectorIndex
    placements: Placements

    async def left_over(self, tenant_id: TenantId) -> set[str]:
        """Places of the tenant that are neither read nor written any more: what a move that was cut off, or a worker that slept
        through it, left behind. The local index has a file for each tenant, and no places."""
        places_of = getattr(self.backend, "places_of", None)
        if places_of is None:
            return set()
        placement = self.placements.of(tenant_id)
        found: set[str] = await places_of(system_scope(tenant_id))
        return found - {placement.place, placement.moving_to}


async def open_index(
    settings: StoreSettings, store: IndexStore, keys: KeyRing, model_key: str, dimension: int
) -> OpenIndex:
    """Compared with what this release expects. ConfigError, Unavailable or DeadlineExceeded. Close `index`."""
    placements = Placements(store, model_key)
    await placements.refresh()
    backend = await _backend(settings, model_key, dimension, placements)
    try:
        await backend.check()
    except BaseException:
        await backend.aclose()
        raise
    return OpenIndex(model_key, BlindIndex(watched(backend, "index"), keys), backend, placements)


async def _backend(settings: StoreSettings, model_key: str, dimension: int, placements: Placements) -> VectorIndex:
    if settings.index == "local":
        return LocalIndex(_folder(settings, model_key), model_key, dimension, settings.deadlines.index_s)
    return weaviate_index(settings, model_key, dimension, placements)


def weaviate_index(settings: StoreSettings, model_key: str, dimension: int, placements: Placements) -> "WeaviateIndex":
    """Not connected yet. ConfigError where the configured index is another, or cannot be read."""
    try:
        from storage.index.weaviate.index import WeaviateIndex
    except ImportError:
        raise ConfigError("stores.index", "Weaviate needs its client: pip install 'strata-memory[weaviate]'") from None
    if settings.index == "local":
        raise ConfigError("stores.index", "is the local one")
    chosen = settings.index
    where = {name: dereferenced(getattr(chosen, name), settings.home) for name in ("http", "grpc")}
    key = (
        None
        if chosen.api_key is None
        else read_secret(secret_reference(chosen.api_key, settings.home), "index.api_key")
    )
    chosen = chosen.model_copy(update=where)
    return WeaviateIndex(chosen, key, model_key, dimension, settings.deadlines.index_s, placements.of)


def _folder(settings: StoreSettings, model_key: str) -> Path:
    return settings.home / "index" / model_key


async def remove_index(settings: StoreSettings, opened: OpenIndex) -> None:
    """What is left of a dropped version's index once its tenants are gone, its folder or its collections; it is closed then."""
    drop_collections = getattr(opened.backend, "drop_collections", None)
    if drop_collections is not None:
        await drop_collections(system_scope())
    await opened.index.aclose()
    if settings.index == "local":
        await asyncio.to_thread(shutil.rmtree, _folder(settings, opened.model_key), ignore_errors=True)


class LiveIndexes:
    """Made by `open`. `active` stays the same for a replica's life; `others` follow the records' list of versions."""

    def __init__(self, settings: StoreSettings, store: IndexStore, keys: KeyRing, model_key: str) -> None:
        self.model_key = model_key
        self._settings, self._store, self._keys = settings, store, keys
        self._opened: dict[str, OpenIndex] = {}
        self._unopened: set[str] = set()
        self._retired = False

    @classmethod
    async def open(
        cls, settings: StoreSettings, store: IndexStore, keys: KeyRing, model_key: str, dimension: int
    ) -> "LiveIndexes":
        """With the index of this model, and every other that the records list."""
        live = cls(settings, store, keys, model_key)
        try:
            await live._add(model_key, dimension)
            await live.refresh()
        except BaseException:
            await live.aclose()
            raise
        return live

    @property
    def active(self) -> BlindIndex:
        return self._opened[self.model_key].index

    @property
    def others(self) -> tuple[BlindIndex, ...]:
        """As of the last refresh. Unavailable while one of them could not be opened: a deletion that missed it would not be one."""
        if self._unopened:
            raise Unavailable("index")
        return tuple(opened.index for key, opened in self._opened.items() if key != self.model_key)

    @property
    def retired(self) -> bool:
        """Another model's index is the active one by now: this replica goes on answering, and leaves writing to those that follow."""
        return self._retired

    async def refresh(self) -> None:
        """One look at what the records list: opens what is new there, closes what was dropped, learns who has moved."""
        listed = {version.model_key: version for version in await self._store.versions(system_scope())}
        own = listed.get(self.model_key)
        self._retired = own is not None and own.state is VersionState.RETIRED
        for gone in self._opened.keys() - listed.keys() - {self.model_key}:
            await self._opened.pop(gone).index.aclose()
        self._unopened = listed.keys() - self._opened.keys()
        for opened in self._opened.values():
            await opened.placements.refresh()
        for model_key in sorted(self._unopened):
            await self._add(model_key, listed[model_key].dimension)
            self._unopened.discard(model_key)

    async def _add(self, model_key: str, dimension: int) -> None:
        self._opened[model_key] = await open_index(self._settings, self._store, self._keys, model_key, dimension)

    async def aclose(self) -> None:
        for opened in self._opened.values():
            await opened.index.aclose()
