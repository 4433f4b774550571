"""What the application builders and their deployments share."""

import os
from typing import Any

from ray.serve.config import BackpressureConfig

from deployments.settings import StoreSettings

PREPARED = "STRATA_PREPARED"
"""Set by `strata up`, which has prepared everything itself: the builders need not do it again."""

BACKPRESSURE = BackpressureConfig(status_code=429, retry_after_s=1)
"""What Serve answers in our place when more wait than `max_queued_requests`; behind a handle it becomes our own Overloaded."""

DRAIN_S = 20.0
"""A replica that is to stop takes nothing new and finishes what it has: longer than a request's own deadline."""


def bounded(requests: int) -> dict[str, Any]:
    """Options of a deployment whose replicas have so many requests at once and as many that wait; the rest is told 429 at once."""
    return {
        "max_ongoing_requests": requests,
        "max_queued_requests": requests,
        "backpressure_config": BACKPRESSURE,
        "graceful_shutdown_timeout_s": DRAIN_S,
        "health_check_period_s": 5,
        "health_check_timeout_s": 10,
    }


def prepare_once(stores: StoreSettings) -> None:
    """Makes `serve run` work on its own: stores, schema, tenants. Nothing where `strata up` was here before."""
    if os.environ.get(PREPARED):
        return
    from deployments.bootstrap import prepare_stores
    from deployments.references import refuse_passwords

    refuse_passwords(stores)
    prepare_stores(stores)
