"""When Serve starts and stops replicas of a model: its queue speaks, memory/scaling.py decides, Serve's delays hold it calm.

Serve counts requests; a request is one question or two hundred passages. So the model replicas tell tokens.
"""

import time
from collections.abc import Callable
from typing import Any

from ray.serve.config import AutoscalingContext

from memory.scaling import Aim, ReplicaLoad, replicas_wanted
from models.batching import Observer
from models.fairqueue import QueueLoad

QUEUED, SERVED, CAPACITY = "queued_tokens", "served_tokens_per_s", "tokens_per_s"


class Meter:
    """An Observer that also adds up what was run, for `stats`; everything is passed on to `observer`."""

    def __init__(self, observer: Observer, clock: Callable[[], float] = time.monotonic) -> None:
        self._observer, self._clock = observer, clock
        self._since, self._tokens = clock(), 0

    def ran(self, items: int, tokens: int, seconds: float) -> None:
        self._tokens += tokens
        self._observer.ran(items, tokens, seconds)

    def waited(self, seconds: float) -> None:
        self._observer.waited(seconds)

    def refused(self, reason: str) -> None:
        self._observer.refused(reason)

    def queued(self, items: int, tokens: int) -> None:
        self._observer.queued(items, tokens)

    def answered(self, waited_s: float, ran_s: float) -> None:
        self._observer.answered(waited_s, ran_s)

    def stats(self, load: QueueLoad) -> dict[str, float]:
        """What a replica's `record_autoscaling_stats` answers; rates are since the last call."""
        now = self._clock()
        elapsed, tokens = max(now - self._since, 1e-3), self._tokens
        self._since, self._tokens = now, 0
        return {
            QUEUED: float(load.queued_tokens),
            SERVED: tokens / elapsed,
            CAPACITY: load.tokens_per_s,
        }


class QueuedTokens:
    """`autoscaling_config.policy.policy_function: deployments.scaling:QueuedTokens`; `policy_kwargs` are those of memory.scaling.Aim."""

    def __init__(self, **aim: float) -> None:
        self._aim = Aim(**aim)

    def __call__(self, context: AutoscalingContext) -> tuple[int, dict[str, Any]]:
        told = context.aggregated_metrics or {}
        queued, served, capacity = (told.get(name, {}) for name in (QUEUED, SERVED, CAPACITY))
        loads = [
            ReplicaLoad(queued.get(replica, 0.0), served.get(replica, 0.0), speed)
            for replica, speed in capacity.items()
        ]
        if not any(load.capacity for load in loads):
            return context.target_num_replicas, {}  # nothing was measured yet: nothing changes
        return replicas_wanted(loads, context.current_num_replicas, self._aim), {}
