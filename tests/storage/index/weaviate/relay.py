"""A way to a server that can be cut, stalled and mended, so that outages are real to the client and the server stays."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit


class Relay:
    """One port in front of another."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.accepted = 0

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Connections are reset, new ones refused."""
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()

    def stall(self) -> None:
        """Connections are taken and nothing is ever answered."""
        self._flowing.clear()

    def flow(self) -> None:
        self._flowing.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._writers.add(writer)
        try:
            there_reader, there_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            self._writers.discard(writer)
            return
        self._writers.add(there_writer)
        try:
            await asyncio.gather(self._pump(reader, there_writer), self._pump(there_reader, writer))
        finally:
            for end in (writer, there_writer):
                self._writers.discard(end)
                end.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
        writer.transport.abort()


class Way:
    """Both ports of a server."""

    def __init__(self, address: str) -> None:
        http, _, grpc_port = address.rpartition(",")
        url = urlsplit(http)
        self.rest, self.grpc = Relay(url.hostname or "", url.port or 80), Relay(url.hostname or "", int(grpc_port))

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.rest.port},{self.grpc.port}"

    async def open(self) -> None:
        for relay in (self.rest, self.grpc):
            await relay.open()

    async def cut(self) -> None:
        for relay in (self.rest, self.grpc):
            await relay.cut()

    def stall(self) -> None:
        for relay in (self.rest, self.grpc):
            relay.stall()

    def flow(self) -> None:
        for relay in (self.rest, self.grpc):
            relay.flow()


@asynccontextmanager
async def way_to(address: str) -> AsyncIterator[Way]:
    way = Way(address)
    await way.open()
    try:
        yield way
    finally:
        way.flow()
        await way.cut()
