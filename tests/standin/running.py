"""Start a stand-in for a test: a process of its own, gone with the test run however that ends."""

import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

REAL = os.environ.get("STRATA_TEST_WEAVIATE", "")
"""`http://host:port,grpc-port` of a real server whose data may be thrown away; empty where there is none."""

_of_this_process = ExitStack()


@contextmanager
def standin(*, auto_schema: bool = False) -> Iterator[str]:
    """Its address, as STRATA_TEST_WEAVIATE gives a real one's."""
    options = ["--auto-schema"] if auto_schema else []
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.standin", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        address = process.stdout.readline().strip()
        if not address:
            raise RuntimeError("the stand-in for Weaviate did not start")
        yield address
    finally:
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


@functools.cache
def weaviate_address() -> str:
    """The real server's, or that of a stand-in which the tests of this process share: use collections of your own."""
    return REAL or _of_this_process.enter_context(standin())
