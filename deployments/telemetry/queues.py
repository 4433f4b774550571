"""What is counted of a model's queue (models/batching.py calls it; models knows nothing of Prometheus)."""

from typing import Protocol

from deployments.telemetry import metrics


class Load(Protocol):
    @property
    def queued_items(self) -> int: ...
    @property
    def queued_tokens(self) -> int: ...


class QueueMetrics:
    """An Observer. `model` is `embedder` or `reranker`."""

    def __init__(self, model: str) -> None:
        self._items, self._tokens = metrics.QUEUE_ITEMS.labels(model), metrics.QUEUE_TOKENS.labels(model)
        self._wait = metrics.QUEUE_WAIT.labels(model)
        self._batch_items, self._batch_tokens = metrics.BATCH_ITEMS.labels(model), metrics.BATCH_TOKENS.labels(model)
        self._batch_seconds = metrics.BATCH_SECONDS.labels(model)
        self._refused = {
            reason: metrics.QUEUE_REFUSED.labels(model, reason) for reason in ("overloaded", "expired", "cancelled")
        }

    def ran(self, items: int, tokens: int, seconds: float) -> None:
        self._batch_items.observe(items)
        self._batch_tokens.observe(tokens)
        self._batch_seconds.observe(seconds)

    def waited(self, seconds: float) -> None:
        self._wait.observe(seconds)

    def refused(self, reason: str) -> None:
        self._refused[reason].inc()

    def queued(self, load: Load) -> None:
        """What waits now; asked for now and then (deployments/telemetry/replica.py), not at every item."""
        self._items.set(load.queued_items)
        self._tokens.set(load.queued_tokens)
