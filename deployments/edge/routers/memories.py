"""Memories: write, look, correct, delete, search."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request
from starlette.responses import Response

from deployments.edge.answers import (
    answer,
    memory_json,
    page_json,
    recalled_json,
    receipt_json,
    revision_json,
    written_json,
    zone_for,
)
from deployments.edge.bodies.memories import (
    CreateMemories,
    DeleteAll,
    HistoryAnswer,
    ManyEntries,
    MemoriesQuery,
    MemoryAnswer,
    MemoryPage,
    PatchMemory,
    SearchAnswer,
    SearchBody,
    UserQuery,
    WrittenMemories,
    entries_of,
)
from deployments.edge.bodies.receipts import ReceiptAnswer
from deployments.edge.idempotency import Ids, perform
from deployments.edge.routers.parameters import Member, MemoryInPath, Svc
from deployments.edge.routes import StrictRoute
from deployments.flows import memories as flows
from deployments.telemetry.metrics import count_degraded, count_learning
from memory.scope import Grant

router = APIRouter(route_class=StrictRoute, tags=["memories"])

MEMORIES = "/v1/memories"
MEMORY = MEMORIES + "/{memory_id}"
OfUser = Annotated[UserQuery, Query()]


@router.post(MEMORIES, response_model=WrittenMemories)
async def create(request: Request, caller: Member, svc: Svc, body: Annotated[CreateMemories, Body()]) -> Response:
    """Write memories explicitly: through the gate, or with a key that may import, verbatim."""
    caller = caller.for_user(body.user_id)
    mode = body.mode if isinstance(body, ManyEntries) else "gated"
    if mode == "verbatim":
        caller.scope.require(Grant.IMPORT)

    async def work(ids: Ids) -> Any:
        verdicts = await flows.create(svc, caller, entries_of(body, ids), mode)
        count_learning(verdicts)
        return {"items": [written_json(verdict) for verdict in verdicts]}

    return (await perform(request, svc, caller, work)).response()


@router.get(MEMORIES, response_model=MemoryPage)
async def list_memories(caller: Member, svc: Svc, query: Annotated[MemoriesQuery, Query()]) -> Response:
    """The user's memories, newest first."""
    caller = caller.for_user(query.user_id)
    page = await flows.list_memories(svc, caller, query.filters(), query.q, query.limit, query.cursor)
    zone = zone_for(caller)
    return answer(page_json(page, [memory_json(memory, zone) for memory in page.items]))


@router.delete(MEMORIES, status_code=202, response_model=ReceiptAnswer)
async def delete_all(request: Request, caller: Member, svc: Svc, body: DeleteAll) -> Response:
    """Delete all of the user's memories, physically, in every store. The receipt says when each was done."""
    caller = caller.for_user(body.user_id)

    async def work(_: Ids) -> Any:
        return receipt_json(await flows.delete(svc, caller, None), zone_for(caller), svc.receipts)

    return (await perform(request, svc, caller, work, 202)).response()


@router.post(MEMORIES + "/search", response_model=SearchAnswer)
async def search(caller: Member, svc: Svc, body: SearchBody) -> Response:
    """Recall without assembly: best first, nothing under the threshold; with `explain`, how each score came about."""
    caller = caller.for_user(body.user_id)
    found = await flows.search(svc, caller, body.request())
    count_degraded(found.degraded)
    zone = zone_for(caller)
    return answer(
        {
            "items": [recalled_json(one, zone, body.explain) for one in found.items],
            "next_cursor": found.next_cursor,
            "degraded": list(found.degraded),
        }
    )


@router.get(MEMORY, response_model=MemoryAnswer)
async def get_memory(caller: Member, svc: Svc, memory_id: MemoryInPath, query: OfUser) -> Response:
    caller = caller.for_user(query.user_id)
    return answer(memory_json(await flows.get_memory(svc, caller, memory_id), zone_for(caller)))


@router.get(MEMORY + "/history", response_model=HistoryAnswer)
async def history(caller: Member, svc: Svc, memory_id: MemoryInPath, query: OfUser) -> Response:
    """What the memory was before, and what changed it."""
    caller = caller.for_user(query.user_id)
    zone = zone_for(caller)
    revisions = await flows.history(svc, caller, memory_id)
    return answer({"items": [revision_json(revision, zone) for revision in revisions], "next_cursor": None})


@router.patch(MEMORY, response_model=MemoryAnswer)
async def correct(request: Request, caller: Member, svc: Svc, memory_id: MemoryInPath, body: PatchMemory) -> Response:
    """Correct a memory: a new version, the old one in the history."""
    caller = caller.for_user(body.user_id)

    async def work(_: Ids) -> Any:
        return memory_json(await flows.correct(svc, caller, memory_id, body.patch()), zone_for(caller))

    return (await perform(request, svc, caller, work)).response()


@router.delete(MEMORY, status_code=202, response_model=ReceiptAnswer)
async def delete_one(request: Request, caller: Member, svc: Svc, memory_id: MemoryInPath, query: OfUser) -> Response:
    """Delete one memory, physically, in every store."""
    caller = caller.for_user(query.user_id)

    async def work(_: Ids) -> Any:
        return receipt_json(await flows.delete(svc, caller, [memory_id]), zone_for(caller), svc.receipts)

    return (await perform(request, svc, caller, work, 202)).response()
