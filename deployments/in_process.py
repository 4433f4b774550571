"""The embedding model in this process: the same queue and encoder as the Embedder's, without a handle between."""

import asyncio
from collections.abc import Sequence

from deployments.telemetry.queues import QueueMetrics
from memory.calibration import ModelStatistics
from memory.encoding import EncodedPassage, EncodedQuery, ModelCard, Passage
from memory.ticket import Ticket
from models.batching import EncoderQueue
from models.encoder import Encoder
from models.settings import EncoderSettings


def loaded(settings: EncoderSettings) -> Encoder:
    """Ready to encode: what the first question would pay for is paid."""
    encoder = Encoder.load(settings)
    encoder.warm_up()
    return encoder


class InProcessEmbedder:
    """An EmbeddingModel for the fused topology, tests, benchmarks and tools; one machine, one process."""

    def __init__(self, encoder: Encoder, max_queue_items: int = 4096, max_wait_s: float | None = None) -> None:
        """Questions wait as long as their tickets allow, unless `max_wait_s` says otherwise."""
        self._encoder = encoder
        self._queue = EncoderQueue(encoder, max_queue_items, QueueMetrics("embedder"), max_wait_s)

    @classmethod
    async def load(cls, settings: EncoderSettings) -> "InProcessEmbedder":
        return cls(await asyncio.to_thread(loaded, settings), settings.max_queue_items, settings.max_wait_s)

    async def card(self) -> ModelCard:
        return self._encoder.card

    async def statistics(self) -> ModelStatistics:
        return self._encoder.statistics

    async def queries(self, ticket: Ticket, texts: Sequence[str]) -> list[EncodedQuery]:
        return await self._queue.queries(ticket, list(texts))

    async def passages(self, ticket: Ticket, passages: Sequence[Passage]) -> list[EncodedPassage]:
        return await self._queue.passages(ticket, list(passages))

    def check(self) -> None:
        """Unavailable where the device no longer answers."""
        self._queue.check()

    async def close(self) -> None:
        await self._queue.close()
