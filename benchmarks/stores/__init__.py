"""What each store costs, beside its floor in the same run: `python -m benchmarks.stores`."""
