"""`strata reindex` and `strata versions`: which models there are indexes of; making one, watching it, dropping one."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout
from rich.console import Console
from rich.table import Column, Table

from deployments.cli.bars import bar
from deployments.indexes import open_index, remove_index
from deployments.placements import place_as_wanted
from deployments.reindexing import Done, Reindexer, Watch
from deployments.reindexing import drop as drop_version
from deployments.serve_file import read_serve_file
from deployments.settings import StoreSettings
from deployments.stores import open_sessions, open_stores
from memory.errors import ConfigError
from memory.scope import system_scope
from models.prepare import prepare
from models.settings import EncoderSettings
from storage.protocols import IndexVersion, VersionState
from storage.sessions.redis_store import RedisSessions


def encoder_settings(configured: EncoderSettings, model: str | None) -> EncoderSettings:
    """The configured model, or another one by its name: on the same device, with what it says of itself."""
    if model is None or model == configured.model:
        return configured
    own = {"model": model, "folder": None, "dimension": None, "query_prefix": None, "passage_prefix": None}
    return configured.model_copy(update=own)


def run(config: Path, model: str | None, console: Console) -> int:
    """0 when the version is ready (or active already). Killed or stopped on the way: run it again, it goes on there."""
    file = read_serve_file(config)
    settings = encoder_settings(file.inference.embedder, model)
    with bar(console, "model") as watch:

        def preparing(stage: str, done: float) -> None:
            watch(f"model: {stage}", round(done * 100), 100)

        folder = settings.folder or prepare(settings, file.stores.home, preparing)
        watch("loading", 0, 0)
        done = asyncio.run(_reindex(file.stores, settings, folder, watch))
    if done.already:
        console.print(f"{done.model_key} is what Strata answers from; nothing to do.", highlight=False)
        return 0
    console.print(
        f"[green]ready[/green] {done.model_key}: {done.written} entries written, {done.removed} removed",
        highlight=False,
    )
    if done.differing:
        console.print(f"{done.differing} entries went on changing; the first start with this model brings them along.")
    console.print(
        f"Set `embedder.model: {settings.model}` in {config} and start Strata again: it switches.", highlight=False
    )
    return 0


async def _reindex(stores_settings: StoreSettings, settings: EncoderSettings, folder: Path, watch: Watch) -> Done:
    from deployments.in_process import InProcessEmbedder
    from models.encoder import Encoder  # torch takes seconds, and only this command needs it

    async with open_stores(stores_settings) as stores, open_sessions(stores_settings) as redis:
        with _alone(stores_settings.home):
            encoder = await asyncio.to_thread(Encoder.from_folder, folder, settings)
            embedder = InProcessEmbedder(encoder)
            listed = {version.model_key for version in await stores.versions.versions(system_scope())}
            if encoder.card.key not in listed:
                await place_as_wanted(stores.versions, stores.tenants, encoder.card.key)
            opened = await open_index(
                stores_settings, stores.versions, stores.keys, encoder.card.key, encoder.card.dimension
            )
            try:
                return await Reindexer(
                    stores.versions,
                    stores.records,
                    stores.tenants,
                    RedisSessions(redis),
                    opened.index,
                    embedder,
                    watch,
                ).run()
            finally:
                await opened.index.aclose()
                await embedder.close()


@contextlib.contextmanager
def _alone(home: Path) -> Iterator[None]:
    """One reindex on a machine at a time. The lock goes with its process, however that ends."""
    path = home / "run" / "reindex.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(path, timeout=0):
            yield
    except Timeout:
        raise ConfigError(str(path), "another reindex is running; wait for it, or end it") from None


def drop(config: Path, model_key: str, console: Console) -> int:
    """A version that is not answered from, with all that is in it."""
    settings = read_serve_file(config).stores

    async def work() -> int:
        async with open_stores(settings) as stores:
            listed = {version.model_key: version for version in await stores.versions.versions(system_scope())}
            if model_key not in listed:
                raise ConfigError("--drop", f"no version `{model_key}`; there are: {', '.join(listed) or 'none'}")
            found = listed[model_key]
            opened = await open_index(settings, stores.versions, stores.keys, found.model_key, found.dimension)
            try:
                gone = await drop_version(stores.versions, opened.index, model_key)
                await remove_index(settings, opened)
            finally:
                await opened.index.aclose()
            return gone

    with console.status(f"Dropping {model_key} ..."):
        gone = asyncio.run(work())
    console.print(f"{model_key} is dropped, with the token vectors of {gone} entries.", highlight=False)
    return 0


def show(config: Path, console: Console) -> int:
    """Every version, oldest first."""
    settings = read_serve_file(config).stores

    async def read() -> list[IndexVersion]:
        async with open_stores(settings) as stores:
            return await stores.versions.versions(system_scope())

    found = asyncio.run(read())
    # Whole and in one piece, however narrow the terminal: it is what `--drop` takes.
    key = Column("version", no_wrap=True, min_width=max((len(version.model_key) for version in found), default=0))
    table = Table(key, "model", "dimension", "state", "since")
    for version in found:
        state = version.state.value
        if version.state is VersionState.BUILDING and version.at is not None:
            state += f", at {version.at[0]}"
        since = version.activated_at or version.created_at
        name = str(version.details.get("name", ""))
        table.add_row(
            version.model_key, name, str(version.dimension), state, f"{since:%Y-%m-%d %H:%M}" if since else ""
        )
    console.print(table)
    return 0
