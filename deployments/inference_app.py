"""The `inference` application: models and nothing else. No route; reached by handles.

The runtimes are imported where a replica starts: whoever only builds the application needs no torch, which takes seconds.
"""

from typing import Any

from ray import serve
from ray.serve import Application

from deployments.building import bounded
from deployments.settings import InferenceArgs, TelemetrySettings
from deployments.telemetry.tracing import serving
from memory.calibration import ModelStatistics
from memory.encoding import EncodedPassage, EncodedQuery, ModelCard, Passage
from memory.errors import Unavailable
from memory.ticket import Ticket
from models.settings import EncoderSettings, RerankerSettings, SummarizerSettings


@serve.deployment(
    ray_actor_options={"num_cpus": 0.5},
    **bounded(256),
)
class Embedder:
    """Pooled and token vectors for the other applications. One device, one pull queue per replica."""

    def __init__(self, settings: EncoderSettings, telemetry: TelemetrySettings) -> None:
        from deployments.scaling import Meter
        from deployments.telemetry.queues import QueueMetrics
        from deployments.telemetry.replica import Telemetry
        from models.batching import EncoderQueue
        from models.encoder import Encoder

        self._telemetry = Telemetry(telemetry, "Embedder")
        self._encoder = Encoder.load(settings)
        self._encoder.warm_up()
        self._meter = Meter(QueueMetrics("embedder"))
        self._queue = EncoderQueue(self._encoder, settings.max_queue_items, self._meter, settings.max_wait_s)

    async def about(self) -> tuple[ModelCard, ModelStatistics]:
        return self._encoder.card, self._encoder.statistics

    async def queries(self, ticket: Ticket, texts: list[str]) -> list[EncodedQuery]:
        """In the order given. Overloaded where the queue is full or they would wait too long, DeadlineExceeded past the ticket's time."""
        with serving(ticket, "Embedder.queries", len(texts)):
            return await self._queue.queries(ticket, texts)

    async def passages(self, ticket: Ticket, passages: list[Passage]) -> list[EncodedPassage]:
        with serving(ticket, "Embedder.passages", len(passages)):
            return await self._queue.passages(ticket, passages)

    def record_autoscaling_stats(self) -> dict[str, float]:
        return self._meter.stats(self._queue.load())

    def check_health(self) -> None:
        """Serve restarts a replica whose loop does not come round to this; we, one whose device has stopped."""
        self._queue.check()

    async def __del__(self) -> None:
        await self._queue.close()
        await self._telemetry.aclose()


@serve.deployment(
    ray_actor_options={"num_cpus": 0.5},
    **bounded(64),
)
class RerankerDeployment:
    """The last judge, where one is configured: a cross-encoder over (question, entry) pairs."""

    def __init__(self, settings: RerankerSettings, telemetry: TelemetrySettings) -> None:
        from deployments.scaling import Meter
        from deployments.telemetry.queues import QueueMetrics
        from deployments.telemetry.replica import Telemetry
        from models.batching import RerankerQueue
        from models.reranker import Pair, Reranker

        self._telemetry = Telemetry(telemetry, "Reranker")
        self._pair = Pair
        self._meter = Meter(QueueMetrics("reranker"))
        reranker = Reranker.load(settings)
        reranker.warm_up()
        self._queue = RerankerQueue(reranker, settings.max_queue_items, self._meter, settings.max_wait_s)

    async def scores(self, ticket: Ticket, query: str, texts: list[str]) -> list[float]:
        """A probability for each text, in order. Overloaded, DeadlineExceeded as the Embedder's."""
        with serving(ticket, "Reranker.scores", len(texts)):
            return await self._queue.submit(ticket, [self._pair(query, text) for text in texts])

    def record_autoscaling_stats(self) -> dict[str, float]:
        return self._meter.stats(self._queue.load())

    def check_health(self) -> None:
        """Serve restarts a replica whose loop does not come round to this; we, one whose device has stopped."""
        self._queue.check()

    async def __del__(self) -> None:
        await self._queue.close()
        await self._telemetry.aclose()


@serve.deployment(
    ray_actor_options={"num_cpus": 0.5},
    **bounded(16),
)
class SummarizerDeployment:
    """Text from a causal model or an OpenAI-compatible endpoint. Proposes; never commits."""

    def __init__(self, settings: SummarizerSettings, telemetry: TelemetrySettings) -> None:
        from deployments.telemetry.replica import Telemetry
        from models.summarizer import Summarizer

        self._telemetry = Telemetry(telemetry, "Summarizer")
        self._summarizer = Summarizer.load(settings)

    async def complete(self, ticket: Ticket, messages: list[dict[str, str]]) -> str:
        with serving(ticket, "Summarizer.complete", len(messages)):
            return await self._summarizer.complete(messages, ticket.timeout_s)

    async def __del__(self) -> None:
        await self._telemetry.aclose()


def app(args: InferenceArgs) -> Application:
    """The Embedder at the root; the others hang from it, so that one application starts and stops them together."""
    embedder = Embedder.bind(args.embedder, args.telemetry)
    siblings: dict[str, Any] = {}
    if args.reranker is not None:
        siblings["reranker"] = RerankerDeployment.options(name="Reranker").bind(args.reranker, args.telemetry)
    if args.summarizer is not None:
        siblings["summarizer"] = SummarizerDeployment.options(name="Summarizer").bind(args.summarizer, args.telemetry)
    if siblings:
        return Roster.bind(embedder, siblings)
    return embedder


@serve.deployment(ray_actor_options={"num_cpus": 0}, max_ongoing_requests=4, graceful_shutdown_timeout_s=1)
class Roster:
    """Holds the application's models together; nobody calls it."""

    def __init__(self, embedder: Any, siblings: dict[str, Any]) -> None:
        self._members = (embedder, *siblings.values())

    async def __call__(self) -> None:
        raise Unavailable("inference has no route")
