"""`strata`: start, stop, look, try, declare tenants."""

from deployments.cli.main import main

__all__ = ["main"]
