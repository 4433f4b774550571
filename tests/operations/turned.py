"""A second embedding model as good as the first: every vector of the real one, turned by one rotation into another space."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import numpy as np

from deployments.in_process import InProcessEmbedder
from memory.encoding import EncodedPassage, EncodedQuery, ModelCard, Passage
from memory.late import pack, unpack
from memory.ticket import Ticket

NAME = "turned-e5-small"


class Turned(InProcessEmbedder):
    """Its vectors and those of the model that it wraps have nothing to do with each other.

    `meanwhile(n)`, if there is one, is awaited before passages are encoded the n-th time.
    """

    meanwhile: Callable[[int], Awaitable[None]] | None = None
    calls = 0

    async def card(self) -> ModelCard:
        card = await super().card()
        return replace(card, name=NAME, means_digest=card.means_digest[::-1])

    async def queries(self, ticket: Ticket, texts: Sequence[str]) -> list[EncodedQuery]:
        found = await super().queries(ticket, texts)
        turn = _rotation(len(found[0].pooled))
        return [EncodedQuery(_unit(one.pooled @ turn), _unit(one.tokens @ turn)) for one in found]

    async def passages(self, ticket: Ticket, passages: Sequence[Passage]) -> list[EncodedPassage]:
        self.calls += 1
        if self.meanwhile is not None:
            await self.meanwhile(self.calls)
        found = await super().passages(ticket, passages)
        turn = _rotation(len(found[0].pooled))
        return [EncodedPassage(_unit(one.pooled @ turn), pack(_unit(unpack(one.tokens) @ turn))) for one in found]


def _rotation(dimension: int) -> np.ndarray:
    drawn = np.random.default_rng(7).standard_normal((dimension, dimension))
    return np.linalg.qr(drawn)[0].astype(np.float32)


def _unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)
