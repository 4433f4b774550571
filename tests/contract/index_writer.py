"""A process that writes into the local index, started by the contract suite with a folder, a prefix of ids and how many."""

import asyncio
import sys
from pathlib import Path

from memory.ids import MemoryId
from tests.contract.index_backends import LocalBackend, scope, sealed, unit


async def main(folder: str, prefix: str, count: int) -> None:
    backend = LocalBackend(Path(folder))
    index = await backend.open(deadline_s=60.0)
    vectors = unit(count, seed=1)
    for n in range(count):
        await index.upsert(
            scope(), [sealed(f"{prefix}{n}", vectors[n], f"fact {prefix} {n}"), sealed("shared", vectors[n], prefix)]
        )
        if n % 5 == 4:
            await index.remove(scope(), [MemoryId(f"{prefix}{n - 1}")])
    await backend.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
