"""Start a stand-in for a test: a process of its own, gone with the test run however that ends."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def standin(*, auto_schema: bool = False) -> Iterator[str]:
    """Its address, as STRATA_TEST_WEAVIATE gives a real one's: `http://127.0.0.1:PORT,GRPCPORT`."""
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
