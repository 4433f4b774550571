"""What the application builders share."""

import os

from deployments.settings import StoreSettings

PREPARED = "STRATA_PREPARED"
"""Set by `strata up`, which has prepared everything itself: the builders need not do it again."""


def prepare_once(stores: StoreSettings) -> None:
    """Makes `serve run` work on its own: stores, schema, tenants. Nothing where `strata up` was here before."""
    if os.environ.get(PREPARED):
        return
    from deployments.bootstrap import prepare_stores
    from deployments.references import refuse_passwords

    refuse_passwords(stores)
    prepare_stores(stores)
