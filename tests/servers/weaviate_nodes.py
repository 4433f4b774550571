"""Three real Weaviate nodes of somebody else's, where the environment names them and their data may be thrown away:

STRATA_TEST_WEAVIATE_NODES   http://host:port,grpc-port three times, separated by blanks
STRATA_TEST_WEAVIATE_KILL    a shell command that kills the third of them at once (kill -9)
STRATA_TEST_WEAVIATE_START   a shell command that starts it again and returns
"""

import asyncio
import os
import subprocess

import pytest

NODES = os.environ.get("STRATA_TEST_WEAVIATE_NODES", "").split()
KILL = os.environ.get("STRATA_TEST_WEAVIATE_KILL", "")
START = os.environ.get("STRATA_TEST_WEAVIATE_START", "")
HEALED_WITHIN_S = 300

needed = pytest.mark.skipif(len(NODES) != 3 or not KILL or not START, reason="names no cluster of three nodes")


async def shell(command: str) -> None:
    await asyncio.to_thread(subprocess.run, command, shell=True, check=True, timeout=120, stdout=subprocess.DEVNULL)
