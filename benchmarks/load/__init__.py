"""Load on a running Strata, open loop: what it answers, how fast, at what cost: `python -m benchmarks.load`."""
