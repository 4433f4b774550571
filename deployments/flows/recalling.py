"""Recall in two stages: candidates from the index, joined to SQL, then judged by late interaction and keywords (L8).

Each part that is away is named in `degraded`, and the rest goes on: without an embedder keywords find, without an index SQL's
recent entries are the candidates, without SQL nothing is recalled. Never is a search repeated without its user filter (P16).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo

from deployments.edge.caller import Caller
from deployments.services import Services
from deployments.telemetry.metrics import CANDIDATES
from memory.calibration import weights_for
from memory.encoding import EncodedQuery
from memory.errors import NotFound, StrataError
from memory.ids import MemoryId
from memory.recall import Found, Question, Recalled
from memory.recall import recall as judge
from memory.terms import terms
from memory.ticket import Ticket
from storage.protocols import Filters, Hit, RecalledRow

UNINDEXED = 50
"""Newest entries that wait for the index, always candidates: what was just said is found at once."""
FALLBACK = 200
"""How many of SQL's entries are looked at where there is no index."""

INLINE = 150
"""So many candidates are judged in a few milliseconds; to hand them to a thread and back costs as much again."""


@dataclass(frozen=True, slots=True)
class Recall:
    """`rows` are the joined candidates by id: an entry's predecessor comes from there."""

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
    standing: int | None = None,
    zone: tzinfo = UTC,
) -> Recall:
    """The caller's entries that this question needs, best first: at most `limit`, none under `threshold`."""
    policy = caller.policy.recall
    chosen = {"limit": limit, "threshold": threshold, "standing": standing}
    policy = policy.model_copy(update={knob: value for knob, value in chosen.items() if value is not None})
    filters = filters or Filters(kinds=tuple(sorted(policy.kinds)))
    if not question.strip():
        return NOTHING
    degraded: list[str] = []
    hits: dict[MemoryId, Hit] = {}
    ids: list[MemoryId] = list(preloaded)
    vector = None if encoded is None else encoded.pooled
    words = terms(question)
    try:
        found = await svc.index.search(caller.scope, vector, words, policy.vector_candidates, policy.keyword_candidates)
        hits = {hit.id: hit for hit in found}
    except NotFound:  # the user is being erased: nothing of his is there any more
        return NOTHING
    except StrataError:
        degraded.append("index")
    try:
        if degraded:
            ids += [memory.id for memory in await svc.records.recent(caller.scope, FALLBACK)]
        model_key, model_name, statistics, sealed = "", "", None, None
        if encoded is not None:
            card, statistics = await svc.embedder.card(), await svc.embedder.statistics()
            model_key, model_name = card.key, card.name
            sealed = await svc.index.seal_question(caller.scope, encoded)
        rows = await svc.records.recall_rows(
            caller.scope, list(dict.fromkeys([*hits, *ids])), filters, model_key, UNINDEXED
        )
    except StrataError:
        return Recall((), {}, (*degraded, "records"))
    candidates = [_found(row, hits.get(row.memory.id), bool(degraded)) for row in rows]
    CANDIDATES.observe(len(candidates))
    judging = (candidates, policy, statistics, svc.clock(), zone, weights_for(model_name))
    if len(candidates) <= INLINE:
        best = judge(Question(question, sealed, words), *judging)
    else:
        best = await asyncio.to_thread(judge, Question(question, sealed, words), *judging)
    return Recall(tuple(best), {row.memory.id: row for row in rows}, tuple(degraded))


def _found(row: RecalledRow, hit: Hit | None, no_index: bool) -> Found:
    return Found(
        memory=row.memory,
        tokens=row.tokens,
        cosine=None if hit is None else hit.cosine,
        bm25=None if hit is None else hit.bm25,
        unindexed=row.unindexed or no_index,
        analysis=row.analysis,
    )


async def rerank(svc: Services, caller: Caller, question: str, found: Recall) -> Recall:
    """The last judge, where the policy asks for it and one is configured: orders by its probability, and drops what it finds
    irrelevant. Without it the fused order stands."""
    if not caller.policy.recall.rerank or not found.memories:
        return found
    if svc.reranker is None:
        return replace(found, degraded=(*found.degraded, "reranker"))
    try:
        ticket = Ticket(caller.scope.tenant_id, svc.deadlines.rerank_s)
        scores = await svc.reranker.scores(ticket, question, [one.memory.content for one in found.memories])
    except StrataError:
        return replace(found, degraded=(*found.degraded, "reranker"))
    judged = sorted(zip(scores, found.memories, strict=True), key=lambda pair: -pair[0])
    kept = tuple(
        replace(one, score=score, parts={**one.parts, "rerank": score})
        for score, one in judged
        if score >= caller.policy.recall.threshold
    )
    return replace(found, memories=kept)
