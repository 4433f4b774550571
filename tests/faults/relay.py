"""A TCP relay in front of a real server: unreachable, slow, stalled, back. Faults on the wire, not in a mock."""

import asyncio
import contextlib
from enum import StrEnum
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

_PIECE = 1 << 16


class Fault(StrEnum):
    NONE = "none"
    UNREACHABLE = "unreachable"  # connections are refused, the open ones are cut
    SLOW = "slow"  # each answer comes `delay_s` after its question
    STALLED = "stalled"  # connections are accepted, questions are read, nothing is answered


class Relay:
    """Listens on a loopback port of its own and passes bytes on to `upstream`: `host:port`, or a socket's path."""

    def __init__(self, upstream: str, delay_s: float = 2.0) -> None:
        self._upstream, self._delay_s = upstream, delay_s
        self._fault = Fault.NONE
        self._speaks = asyncio.Event()
        self._speaks.set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> "Relay":
        await self._listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def fault(self, fault: Fault) -> None:
        """From now on; Fault.NONE makes it whole again."""
        before, self._fault = self._fault, fault
        if fault is Fault.STALLED:
            self._speaks.clear()
        else:
            self._speaks.set()
        if fault is Fault.UNREACHABLE:
            await self._close()
        elif before is Fault.UNREACHABLE:
            await self._listen()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in list(self._tasks):
            task.cancel()
        for writer in list(self._writers):
            writer.transport.abort()
        self._writers.clear()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            up_reader, up_writer = await self._connect()
        except OSError:
            writer.transport.abort()
            return
        self._writers.add(up_writer)
        asked = [0.0]
        for work in (self._questions(reader, up_writer, asked), self._answers(up_reader, writer, asked)):
            task = asyncio.create_task(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._upstream.startswith("/"):
            return await asyncio.open_unix_connection(self._upstream)
        host, _, port = self._upstream.rpartition(":")
        return await asyncio.open_connection(host, int(port))

    async def _questions(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: list[float]) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(_PIECE):
                asked[0] = asyncio.get_running_loop().time()
                writer.write(piece)
                await writer.drain()
        self._shut(writer)

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: list[float]) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(_PIECE):
                if self._fault is Fault.SLOW:
                    due = asked[0] + self._delay_s
                    await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
                await self._speaks.wait()
                writer.write(piece)
                await writer.drain()
        self._shut(writer)

    def _shut(self, writer: asyncio.StreamWriter) -> None:
        self._writers.discard(writer)
        writer.close()


def upstream_of(url: str) -> str:
    """What a Relay takes as its upstream, of any server's URL."""
    if url.startswith("unix://"):
        return unquote(url.removeprefix("unix://"))
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}"


def through(relay: Relay, url: str, scheme: str | None = None) -> str:
    """The same URL by way of the relay."""
    if url.startswith("unix://"):
        return f"{scheme or 'redis'}://{relay.address}/0"
    parts = urlsplit(url)
    credentials, at, _ = parts.netloc.rpartition("@")
    replaced: Any = parts._replace(netloc=f"{credentials}{at}{relay.address}")
    return urlunsplit(replaced)
