"""A process that counts as a replica does, for tests: `python -m tests.telemetry.counting N`, until its standard input ends."""

import os
import sys

from deployments.telemetry import metrics

if __name__ == "__main__":
    times = int(sys.argv[1])
    for _ in range(times):
        metrics.observe("/v1/context", "POST", 200, "shop", 0.004)
    metrics.REPLICA_UP.labels("MemoryApi").set(1)
    metrics.BACKLOG.set(times)
    print(os.getpid(), flush=True)
    sys.stdin.read()
