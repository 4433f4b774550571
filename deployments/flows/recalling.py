"""Recall in two stages: candidates from the index, joined to SQL, then judged by late interaction and keywords (L8).

Each part that is away is named in `degraded`, and the rest goes on: without an embedder keywords find, without an index SQL's
recent entries are the candidates, without SQL nothing is recalled. Never is a search repeated without its user filter (P16).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from deployments.edge.authenticate import Caller
from deployments.services import Services
from memory.encoding import EncodedQuery
from memory.errors import StrataError
from memory.ids import MemoryId
from memory.late import unpack
from memory.recall import Evidence, Question, Recalled, rank
from memory.terms import terms
from memory.ticket import Ticket
from storage.protocols import Filters, Hit, RecalledRow

UNINDEXED = 50
"""Newest entries that wait for the index, always candidates: what was just said is found at once."""
FALLBACK = 200
"""How many of SQL's entries are looked at where there is no index."""


@dataclass(frozen=True, slots=True)
class Recall:
    memories: tuple[Recalled, ...]
    rows: dict[MemoryId, RecalledRow]
    degraded: tuple[str, ...]


NOTHING = Recall((), {}, ())


async def encode_question(svc: Services, caller: Caller, question: str) -> tuple[EncodedQuery | None, tuple[str, ...]]:
    """The question's vectors, or None and what is missing."""
    try:
        ticket = Ticket(caller.scope.tenant_id, svc.deadlines.embed_s)
        return (await svc.embedder.queries(ticket, [question]))[0], ()
    except StrataError:
        return None, ("embedder",)


async def recall(
    svc: Services,
    caller: Caller,
    question: str,
    encoded: EncodedQuery | None,
    *,
    filters: Filters | None = None,
    preloaded: Sequence[MemoryId] = (),
    limit: int | None = None,
    threshold: float | None = None,
) -> Recall:
    """The caller's entries that this question needs, best first: at most `limit`, none under `threshold`."""
    policy = caller.policy.recall
    filters = filters or Filters(kinds=tuple(sorted(policy.kinds)))
    degraded: list[str] = []
    question_terms = tuple(terms(question))
    hits: dict[MemoryId, Hit] = {}
    try:
        found = await svc.index.search(
            caller.scope,
            None if encoded is None else encoded.pooled,
            question_terms,
            policy.vector_candidates,
            policy.keyword_candidates,
        )
        hits = {hit.id: hit for hit in found}
        index_up = True
    except StrataError:
        degraded.append("index")
        index_up = False
    try:
        ids = list(dict.fromkeys([*hits, *preloaded]))
        if not index_up:
            ids = list(dict.fromkeys([*ids, *(memory.id for memory in await svc.records.recent(caller.scope, FALLBACK))]))
        card = await svc.embedder.card() if encoded is not None else None
        rows = await svc.records.recall_rows(caller.scope, ids, filters, "" if card is None else card.key, UNINDEXED)
        sealed = None if encoded is None else await svc.index.seal_question(caller.scope, encoded)
    except StrataError:
        return Recall((), {}, (*degraded, "records"))
    evidence = [_evidence(row, hits.get(row.memory.id)) for row in rows]
    chosen = await asyncio.to_thread(
        rank,
        Question(question, question_terms, sealed),
        evidence,
        policy if limit is None else policy.model_copy(update={"limit": limit}),
        await svc.embedder.statistics() if encoded is not None else None,
        svc.clock(),
        threshold=threshold,
    )
    return Recall(tuple(chosen), {row.memory.id: row for row in rows}, tuple(degraded))


def _evidence(row: RecalledRow, hit: Hit | None) -> Evidence:
    return Evidence(
        memory=row.memory,
        terms=tuple(terms(row.memory.content)),
        tokens=None if row.tokens is None else unpack(row.tokens),
        cosine=None if hit is None else hit.cosine,
        bm25=None if hit is None else hit.bm25,
    )


