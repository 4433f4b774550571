"""Chaos on demand: workers and clients killed and stalled at random, then an audit.

    python -m tests.faults.chaos --seconds 120 [--records URL] [--sessions URL] [--weaviate http://host:port,grpc-port] [--seed N]

Prints what was done, what was killed, and what was found: missing/orphans/undead/tombstones 0/0/0/0, or it exits with 1. By default
on the embedded tier, in a folder that goes afterwards; a server is left as it was.
"""

import argparse
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from storage.sessions import valkey_server
from tests.faults.model import prepared_model
from tests.faults.places import own_collections, own_database
from tests.faults.raging import Chaos
from tests.faults.world import Place


@contextmanager
def stores(records: str | None, sessions: str | None, weaviate: str | None) -> Iterator[Place]:
    """A Place on these servers, in databases and collections of its own, all gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="st-"))
    try:
        with own_database(records) as url, own_collections(weaviate) as index:
            yield Place(folder / "home", prepared_model(folder), url, sessions or "bundled", index)
    finally:
        valkey_server.stop(folder / "home")
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--records", metavar="URL", help="of a database server; a database of its own is made on it")
    parser.add_argument(
        "--sessions", metavar="URL", help="of a Redis; what is written there ends with its time to live"
    )
    parser.add_argument(
        "--weaviate", metavar="http://host:port,grpc-port", help="collections of its own are made on it"
    )
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    given = parser.parse_args()
    print(f"seed        {given.seed}", flush=True)
    with stores(given.records, given.sessions, given.weaviate) as place:
        report = Chaos(place, given.seconds, given.seed).run()
    print(report)
    return 0 if report.good else 1


if __name__ == "__main__":
    sys.exit(main())
