"""What the first call would pay for, paid before a replica is ready: loaded tokenizer, compiled patterns, a handle that knows its way."""

import asyncio
import contextlib
from datetime import UTC, datetime

from deployments.services import Services
from memory.errors import StrataError
from memory.gate import judge
from memory.ids import TenantId, TurnId
from memory.packing import PackRequest, pack
from memory.policy import Policy
from memory.terms import terms
from memory.ticket import Ticket
from memory.turns import NewTurn, Role
from models.tokens import counter_for

SPOKEN = "I'm allergic to peanuts. 我喜欢喝茶。"
ASKED = "What should I cook tonight? 今晚吃什么好？"
NOBODY = TenantId("warm-up")


async def warm_up(services: Services) -> None:
    """One question through the model, and every rule once, on sentences of our own. What is away is no reason to wait (P40)."""
    with contextlib.suppress(StrataError):
        await services.embedder.queries(Ticket(NOBODY, services.deadlines.embed_s), [ASKED])
        await services.embedder.statistics()
    await asyncio.to_thread(_rehearse)


def _rehearse() -> None:
    policy = Policy()
    terms(ASKED)
    judge(NewTurn(TurnId("warm-up"), Role.USER, SPOKEN, 0, datetime.now(UTC)), policy=policy.gate)
    pack(PackRequest(policy=policy.prompt, question=ASKED), counter_for(policy.prompt.model))
