"""The context call: what the model needs now."""

from fastapi import APIRouter
from starlette.responses import Response

from deployments.edge.answers import answer
from deployments.edge.authenticate import session_caller
from deployments.edge.bodies.context import ContextBody, ContextBodyAnswer
from deployments.edge.routers.parameters import Asker, Svc
from deployments.edge.routes import StrictRoute
from deployments.flows import context as flows
from deployments.telemetry.metrics import observe_context
from memory.errors import InvalidInput

router = APIRouter(route_class=StrictRoute, tags=["context"])

CONTEXT = "/v1/context"


@router.post(CONTEXT, response_model=ContextBodyAnswer)
async def assemble(caller: Asker, svc: Svc, body: ContextBody) -> Response:
    """The working memory for one call to a model: messages within the budget, and an account of what is in them and what is not."""
    request = body.request(caller.policy.prompt)
    if body.user_id is not None:
        caller = caller.for_user(body.user_id)
    session_id = body.session_id or caller.scope.session_id
    if session_id is None:
        raise InvalidInput("session_id", "is required with a tenant key: which session is meant?")
    caller = await session_caller(svc, caller, session_id)
    assembled = await flows.assemble(svc, caller, request)
    observe_context(assembled.tokens, assembled.memories, assembled.cut, assembled.degraded)
    return answer(assembled)


# Behind a mount the address may come with a slash; a redirect would lose the body of a careless client.
router.add_api_route(CONTEXT + "/", assemble, methods=["POST"], include_in_schema=False)
