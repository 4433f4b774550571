"""The embedding model in this process: the same queue and encoder as the Embedder's, without a handle between."""

from collections.abc import Sequence

from memory.calibration import ModelStatistics
from memory.encoding import EncodedPassage, EncodedQuery, ModelCard, Passage
from memory.ticket import Ticket
from models.batching import EncoderQueue
from models.encoder import Encoder


class InProcessEmbedder:
    """An EmbeddingModel for tests, benchmarks and tools; one machine, one process."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder, self._queue = encoder, EncoderQueue(encoder)

    async def card(self) -> ModelCard:
        return self._encoder.card

    async def statistics(self) -> ModelStatistics:
        return self._encoder.statistics

    async def queries(self, ticket: Ticket, texts: Sequence[str]) -> list[EncodedQuery]:
        return await self._queue.queries(ticket, list(texts))

    async def passages(self, ticket: Ticket, passages: Sequence[Passage]) -> list[EncodedPassage]:
        return await self._queue.passages(ticket, list(passages))

    async def close(self) -> None:
        await self._queue.close()
