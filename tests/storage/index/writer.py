"""A process that writes into a local index until it is killed or its disk is full: `FOLDER MODE`, MODE is `forever` or `full`."""

import asyncio
import resource
import signal
import sys
from pathlib import Path

import structlog

from memory.errors import Unavailable
from tests.contract.index_backends import LocalBackend, scope, sealed, unit


async def main(folder: str, mode: str) -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # the test reads what we print
    index = await LocalBackend(Path(folder)).open()
    vectors = unit(100)
    if mode == "full":  # no file may grow beyond 300 kB from here on: writes fail as on a full disk
        await index.upsert(scope(), [sealed("before", vectors[0], "tea")])
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
    for n in range(100_000):
        batch = [sealed(f"b{n}-{i}", vectors[i], f"tea number {i}") for i in range(20)]
        try:
            await index.upsert(scope(), batch)
        except Unavailable:
            print("full", n, flush=True)
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            await index.upsert(scope(), [sealed("after", vectors[0], "tea")])
            return
        print(n, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
