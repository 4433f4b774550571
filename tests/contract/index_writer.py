"""A process that writes into an index, started by the contract suite with a prefix of ids, how many, and which index."""

import asyncio
import sys

from memory.ids import MemoryId
from tests.contract.index_backends import backend_of, scope, sealed, unit


async def main(prefix: str, count: int, arguments: list[str]) -> None:
    backend = backend_of(arguments)
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
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
