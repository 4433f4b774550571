"""Fixtures of the session tier's own tests."""

from tests.contract.session_backends import session_client, session_url, sessions  # noqa: F401
from tests.servers import home, tenant, valkey  # noqa: F401
