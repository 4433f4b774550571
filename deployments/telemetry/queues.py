"""What is counted of a model's queue (models/batching.py calls it; models knows nothing of Prometheus)."""

from deployments.telemetry import metrics
from deployments.telemetry.tracing import device_run


class QueueMetrics:
    """An Observer. `model` is `embedder` or `reranker`."""

    def __init__(self, model: str) -> None:
        self._model = model
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

    def queued(self, items: int, tokens: int) -> None:
        self._items.set(items)
        self._tokens.set(tokens)

    def answered(self, waited_s: float, ran_s: float) -> None:
        device_run(self._model, waited_s, ran_s)
