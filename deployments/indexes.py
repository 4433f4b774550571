"""The indexes that a replica holds: the one of its own model, which it answers from, and those of other models that are being
built, or are not dropped yet: what is deleted must go from these too."""

from typing import Protocol

from deployments.placements import Placements
from deployments.settings import StoreSettings
from memory.errors import Unavailable
from memory.scope import system_scope
from storage.index.blind import BlindIndex, KeyRing
from storage.index.local import LocalIndex
from storage.protocols import PlacementStore, VectorIndex, VersionState, VersionStore


class IndexStore(VersionStore, PlacementStore, Protocol):
    """What the records know of indexes."""


async def open_index(settings: StoreSettings, model_key: str, dimension: int, placements: Placements) -> VectorIndex:
    """The index of one model, open and compared with what this release expects. ConfigError, Unavailable or DeadlineExceeded."""
    index = LocalIndex(settings.home / "index" / model_key, model_key, dimension, settings.deadlines.index_s)
    try:
        await index.check()
    except BaseException:
        await index.aclose()
        raise
    return index


class LiveIndexes:
    """Made by `open`. `active` stays the same for a replica's life; `others` follow the records' list of versions."""

    def __init__(self, settings: StoreSettings, store: IndexStore, keys: KeyRing, model_key: str) -> None:
        self.model_key = model_key
        self._settings, self._store, self._keys = settings, store, keys
        self._indexes: dict[str, BlindIndex] = {}
        self._placements: dict[str, Placements] = {}
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
        return self._indexes[self.model_key]

    @property
    def others(self) -> tuple[BlindIndex, ...]:
        """As of the last refresh. Unavailable while one of them could not be opened: a deletion that missed it would not be one."""
        if self._unopened:
            raise Unavailable("index")
        return tuple(index for key, index in self._indexes.items() if key != self.model_key)

    @property
    def retired(self) -> bool:
        """Another model's index is the active one by now: this replica goes on answering, and leaves writing to those that follow."""
        return self._retired

    async def refresh(self) -> None:
        """One look at what the records list: opens what is new there, closes what was dropped, learns who has moved."""
        listed = {version.model_key: version for version in await self._store.versions(system_scope())}
        own = listed.get(self.model_key)
        self._retired = own is not None and own.state is VersionState.RETIRED
        for gone in self._indexes.keys() - listed.keys() - {self.model_key}:
            del self._placements[gone]
            await self._indexes.pop(gone).aclose()
        self._unopened = listed.keys() - self._indexes.keys()
        for placements in self._placements.values():
            await placements.refresh()
        for model_key in sorted(self._unopened):
            await self._add(model_key, listed[model_key].dimension)
            self._unopened.discard(model_key)

    async def _add(self, model_key: str, dimension: int) -> None:
        placements = Placements(self._store, model_key)
        await placements.refresh()
        index = await open_index(self._settings, model_key, dimension, placements)
        self._indexes[model_key] = BlindIndex(index, self._keys)
        self._placements[model_key] = placements

    async def aclose(self) -> None:
        for index in self._indexes.values():
            await index.aclose()
