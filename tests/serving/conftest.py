"""One Strata for many tests: a start costs half a minute of two processors."""

from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.service import Service
from tests.serving.replicas import application, options

FEW = 8
"""Requests that a replica of the assembler has at once, and as many that wait: so that a flood is a small one."""


def edit(config: Any) -> None:
    """Two replicas of what answers; fractions of a processor on paper, so that three Embedders fit beside them."""
    for deployment in ("ContextAssembler", "MemoryApi"):
        options(config, deployment).update(num_replicas=2, ray_actor_options={"num_cpus": 0.1})
    options(config, "Embedder")["ray_actor_options"] = {"num_cpus": 0.2}
    options(config, "ContextAssembler").update(max_ongoing_requests=FEW, max_queued_requests=FEW)
    options(config, "Curator").update(
        num_replicas=1, ray_actor_options={"num_cpus": 0.1}, health_check_period_s=1, health_check_timeout_s=3
    )
    # A long text fills a run, and questions wait for their turn rather than being refused.
    application(config, "inference")["args"]["embedder"].update(batch_tokens=512, max_wait_s=30)


@pytest.fixture(scope="module")
def split(encoder: object) -> Iterator[Service]:  # the encoder fixture: the model is prepared
    """Three applications behind HAProxy. Whoever kills something in it waits until it is whole again."""
    environment = {"RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S": "1"}
    with Service(topology="split", transport="haproxy", edit=edit, environment=environment) as service:
        yield service
