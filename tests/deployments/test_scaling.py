"""Serve's side of scaling: what a replica tells, and the policy as Serve makes it from configs/production.yaml."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.serve._private.common import DeploymentID, ReplicaID
from ray.serve.config import AutoscalingConfig, AutoscalingContext

from deployments.scaling import CAPACITY, QUEUED, SERVED, Meter
from models.fairqueue import QueueLoad

PRODUCTION = Path(__file__).resolve().parents[2] / "configs" / "production.yaml"
EMBEDDER = DeploymentID("Embedder", "inference")


def configured() -> Any:
    applications = yaml.safe_load(PRODUCTION.read_text("utf-8"))["applications"]
    return next(d for app in applications for d in app["deployments"] if d["name"] == "Embedder")["autoscaling_config"]


def context(told: dict[str, list[float]], running: int, target: int | None = None) -> AutoscalingContext:
    replicas = [ReplicaID(str(number), EMBEDDER) for number in range(running)]
    return AutoscalingContext(
        deployment_id=EMBEDDER,
        deployment_name=EMBEDDER.name,
        app_name=EMBEDDER.app_name,
        current_num_replicas=running,
        target_num_replicas=running if target is None else target,
        running_replicas=replicas,
        total_num_requests=0,
        total_queued_requests=0,
        aggregated_metrics={name: dict(zip(replicas, values, strict=False)) for name, values in told.items()},
        raw_metrics=None,
        capacity_adjusted_min_replicas=1,
        capacity_adjusted_max_replicas=8,
        policy_state={},
        last_scale_up_time=None,
        last_scale_down_time=None,
        current_time=None,
        config=None,
    )


@pytest.mark.parametrize(
    ("told", "running", "target", "wanted"),
    [
        ({}, 2, 2, 2),  # nobody has reported yet
        ({}, 1, 3, 3),  # ... and what was decided before stands
        ({QUEUED: [0, 0], SERVED: [0, 0], CAPACITY: [0, 0]}, 2, 2, 2),
        ({QUEUED: [0, 0], SERVED: [900, 900], CAPACITY: [1000, 1000]}, 2, 2, 3),
        ({QUEUED: [20_000, 0], SERVED: [1000, 500], CAPACITY: [1000, 1000]}, 2, 2, 7),
        ({QUEUED: [0], SERVED: [1000], CAPACITY: [1000]}, 2, 2, 2),  # the second has not reported yet
        ({QUEUED: [0, 0, 0], SERVED: [10, 0, 0], CAPACITY: [1000, 1000, 1000]}, 3, 3, 1),
    ],
)
def test_s1_the_policy_of_the_production_file(told, running, target, wanted):
    policy = AutoscalingConfig(**configured()).policy
    decide = policy.get_policy()(**policy.policy_kwargs)
    assert decide(context(told, running, target)) == (wanted, {})


class Heard:
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def ran(self, items: int, tokens: int, seconds: float) -> None:
        self.heard.append((items, tokens, seconds))

    def waited(self, seconds: float) -> None:
        self.heard.append(seconds)

    def refused(self, reason: str) -> None:
        self.heard.append(reason)

    def queued(self, items: int, tokens: int) -> None:
        self.heard.append((items, tokens))

    def answered(self, waited_s: float, ran_s: float) -> None:
        self.heard.append((waited_s, ran_s))


def test_a_meter_tells_rates_since_it_was_asked_and_passes_everything_on():
    now = 100.0
    heard = Heard()
    meter = Meter(heard, clock=lambda: now)
    meter.ran(2, 300, 0.1)
    meter.ran(1, 200, 0.1)
    meter.waited(0.5)
    meter.refused("overloaded")
    meter.queued(7, 90)
    meter.answered(0.25, 0.125)
    now = 105.0
    load = QueueLoad(4, 700, 2000.0, 0.25)
    assert meter.stats(load) == {QUEUED: 700.0, SERVED: 100.0, CAPACITY: 2000.0}
    now = 110.0
    assert meter.stats(load)[SERVED] == 0.0
    assert heard.heard == [(2, 300, 0.1), (1, 200, 0.1), 0.5, "overloaded", (7, 90), (0.25, 0.125)]
