"""Fixtures of the whole suite."""

from typing import TYPE_CHECKING

import pytest

from tests.servers import (  # noqa: F401
    home,
    mariadb,
    mysql,
    postgres,
    redis_cluster,
    redis_sentinel,
    redis_server,
    tenant,
    valkey,
)

if TYPE_CHECKING:
    from models.encoder import Encoder


@pytest.fixture(scope="session")
def encoder() -> "Encoder":
    """The default model, prepared into the usual cache where it is not there yet."""
    from models.encoder import Encoder, EncoderSettings  # here: most tests need no torch, which takes seconds to import

    return Encoder.load(EncoderSettings())
