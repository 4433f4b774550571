"""What the application builders and their deployments share."""

import os

from ray.serve.config import BackpressureConfig

from deployments.settings import StoreSettings

PREPARED = "STRATA_PREPARED"
"""Set by `strata up`, which has prepared everything itself: the builders need not do it again."""

BACKPRESSURE = BackpressureConfig(status_code=429, retry_after_s=1)
"""What Serve answers in our place when more wait than `max_queued_requests`; behind a handle it becomes our own Overloaded."""

DRAIN_S = 20.0
"""A replica that is to stop takes nothing new and finishes what it has: longer than a request's own deadline."""


def prepare_once(stores: StoreSettings) -> None:
    """Makes `serve run` work on its own: stores, schema, tenants. Nothing where `strata up` was here before."""
    if os.environ.get(PREPARED):
        return
    from deployments.bootstrap import prepare_stores
    from deployments.references import refuse_passwords

    refuse_passwords(stores)
    prepare_stores(stores)
