"""Erasure and its receipts (I3)."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from deployments.edge.answers import answer, receipt_json, zone_for
from deployments.edge.authenticate import Guard
from deployments.edge.bodies.memories import UserQuery
from deployments.edge.bodies.receipts import PublicKeys, ReceiptAnswer
from deployments.edge.caller import Caller
from deployments.edge.idempotency import Ids, perform
from deployments.edge.routers.parameters import ReceiptInPath, Svc, UserInPath
from deployments.edge.routes import StrictRoute
from deployments.flows import erasing as flows
from memory.scope import Grant

router = APIRouter(route_class=StrictRoute, tags=["erasure"])

Administrator = Annotated[Caller, Depends(Guard(Grant.ADMIN, key_only=True))]
Reader = Annotated[Caller, Depends(Guard(Grant.MEMORY, instead=Grant.ADMIN))]


@router.delete("/v1/users/{user_id}", status_code=202, response_model=ReceiptAnswer)
async def erase_user(request: Request, caller: Administrator, svc: Svc, user_id: UserInPath) -> Response:
    """Erase a user, for good and in every store: memories with their history, vectors and keywords, sessions with turns and state, kept
    answers, keys. His sessions end at once; until the erasure is complete every write for him is a 409. Afterwards the id may begin
    anew. The receipt says how far each store is."""
    of_user = caller.for_user(user_id)

    async def work(_: Ids) -> Any:
        return receipt_json(await flows.erase_user(svc, of_user), zone_for(caller), svc.receipts)

    # The claim is the tenant's own: one of the user's would be among what is erased.
    return (await perform(request, svc, caller, work, 202)).response()


@router.get("/v1/receipts/keys", response_model=PublicKeys)
async def receipt_keys(svc: Svc) -> Response:
    """The public key (a JWK set) that receipts are checked with. `signature` is a compact JWS with EdDSA over Ed25519; its payload is
    the rest of the receipt as canonical JSON: UTF-8, keys sorted, no white space, without the member `signature`."""
    return answer({"keys": [svc.receipts.public_jwk]})


@router.get("/v1/receipts/{receipt_id}", response_model=ReceiptAnswer)
async def get_receipt(
    caller: Reader, svc: Svc, receipt_id: ReceiptInPath, query: Annotated[UserQuery, Query()]
) -> Response:
    """How far a deletion is, store by store; signed once it is complete. A key with `admin` sees any receipt of its tenant, everyone
    else those of one user."""
    if query.user_id is not None or Grant.ADMIN not in caller.scope.grants:
        caller = caller.for_user(query.user_id)
    found = await flows.receipt(svc, caller, receipt_id)
    return answer(receipt_json(found, zone_for(caller), svc.receipts))
