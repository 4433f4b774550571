"""A relay in front of a real server that can answer late, fall silent, refuse and cut: faults on the wire, not in a mock."""

import asyncio
import contextlib
from pathlib import Path
from urllib.parse import unquote


class Relay:
    """Listens on a socket of its own and passes bytes on to the server's socket. Change its attributes while it runs."""

    def __init__(self, upstream_url: str, folder: Path) -> None:
        self._upstream = unquote(upstream_url.removeprefix("unix://"))
        self._path = folder / "relay.sock"
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.delay_s = 0.0  # before each piece of an answer
        self._heard = asyncio.Event()
        self._heard.set()
        self._holding = asyncio.Event()
        self.pieces = 0  # pieces of requests that came in

    @property
    def silent(self) -> bool:
        """Requests go in, no answer comes out until this is False again."""
        return not self._heard.is_set()

    @silent.setter
    def silent(self, silent: bool) -> None:
        if silent:
            self._holding.clear()
            self._heard.clear()
        else:
            self._heard.set()

    @property
    def url(self) -> str:
        return f"unix://{self._path}"

    async def __aenter__(self) -> "Relay":
        await self.listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.refuse()

    async def listen(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self._path)

    async def refuse(self) -> None:
        """No new connections, and the old ones are cut."""
        assert self._server is not None
        self._server.close()
        self._path.unlink(missing_ok=True)
        self.cut()
        await asyncio.sleep(0)

    async def holding(self) -> None:
        """Returns when the server has acted on what came in, and its answer is held here: `silent` must be set before."""
        await asyncio.wait_for(self._holding.wait(), 60)

    def cut(self) -> None:
        for task in self._tasks:
            task.cancel()
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_unix_connection(self._upstream)
        self._writers |= {writer, up_writer}
        for one in (self._requests(reader, up_writer), self._answers(up_reader, writer)):
            task = asyncio.create_task(one)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(65536):
                self.pieces += 1
                writer.write(piece)
                await writer.drain()
        writer.close()

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(65536):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                if self.silent:
                    self._holding.set()
                await self._heard.wait()
                writer.write(piece)
                await writer.drain()
        writer.close()
