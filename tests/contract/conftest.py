"""Fixtures of the contract suites."""

from tests.contract.index_backends import backend, blind, index  # noqa: F401
from tests.contract.record_backends import (  # noqa: F401
    alice,
    database,
    migrated,
    records,
    records_url,
    tenants,
    versions,
    worker,
)
from tests.contract.session_backends import session_client, session_url, sessions  # noqa: F401
from tests.servers import home, tenant, valkey  # noqa: F401
