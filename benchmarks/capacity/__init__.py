"""What Strata costs to run, measured for `strata size` and docs/capacity.md: `python -m benchmarks.capacity`."""
