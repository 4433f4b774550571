"""A client under chaos: writes, corrects, deletes and erases through the whole application, and reports each step before and after.

It is a process that may be killed at any moment. What it was doing then, its successor asks again under the same Idempotency-Key.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.end_to_end.harness import Strata, Tenant
from tests.faults.stories import quiet
from tests.faults.world import Place, fresh, opened

LETTERS = "abcdefghijklmnopqrstuvwxyz"
MOST = 12
"""Entries of a user, about."""
RETRIED = (409, 429, 503, 504)


@dataclass(frozen=True, slots=True)
class Operation:
    """One request. `key` is its Idempotency-Key; `content` what shall be there afterwards, `memory` what it is about."""

    kind: str
    user: str
    key: str
    content: str = ""
    memory: str = ""


@dataclass
class User:
    """What a user's client was told: the entries that live, by id, and the request that is under way."""

    tenant: str
    name: str
    entries: dict[str, str] = field(default_factory=dict)
    under_way: Operation | None = None
    erased: bool = False
    locked_out: bool = False


def next_operation(user: User, dice: random.Random) -> Operation:
    """Mostly writes; an erasure once in a long while."""
    if user.under_way is not None:
        return user.under_way
    key = fresh("k")
    roll = dice.random()
    if user.entries and (roll < 0.3 or len(user.entries) > MOST):
        return Operation("delete", user.name, key, memory=dice.choice(sorted(user.entries)))
    if user.entries and roll < 0.5:
        return Operation("update", user.name, key, fact(dice), dice.choice(sorted(user.entries)))
    if user.entries and roll < 0.55:
        return Operation("erase", user.name, key)
    return Operation("create", user.name, key, fact(dice))


def fact(dice: random.Random) -> str:
    """Like nothing else: here it is about losing, not about merging."""
    return " ".join("".join(dice.choices(LETTERS, k=9)) for _ in range(4))


def acknowledged(user: User, operation: Operation, status: int, body: Any) -> None:
    """What the user's client knows after an answer. A conflict or an outage settles nothing: it is asked again."""
    if status in RETRIED:
        return
    user.under_way = None
    if status in (401, 403):  # the tenant is being erased
        user.locked_out = True
    elif operation.kind == "create" and status == 200:
        (item,) = body["items"]
        assert item["verdict"] == "stored", item
        user.entries[item["id"]] = operation.content
    elif operation.kind == "update" and status == 200:
        user.entries[operation.memory] = operation.content
    elif operation.kind == "delete" and status in (202, 404):
        user.entries.pop(operation.memory, None)
    elif operation.kind == "erase" and status in (202, 404):
        user.entries.clear()
        user.erased = True
    else:
        raise AssertionError(f"{operation.kind} answered {status}: {body}")


async def request(strata: Strata, tenant: Tenant, operation: Operation) -> httpx.Response:
    named: dict[str, Any] = {"headers": {"Idempotency-Key": operation.key}}
    user = {"user_id": operation.user}
    match operation.kind:
        case "create":
            body = {**user, "memories": [{"content": operation.content}], "mode": "verbatim"}
            return await tenant.call("POST", "/v1/memories", json=body, **named)
        case "update":
            body = {**user, "content": operation.content}
            return await tenant.call("PATCH", f"/v1/memories/{operation.memory}", json=body, **named)
        case "delete":
            return await tenant.call("DELETE", f"/v1/memories/{operation.memory}", params=user, **named)
    return await tenant.call("DELETE", f"/v1/users/{operation.user}", **named)


async def client(place: Place, users: list[User], keys: dict[str, str], seed: int, tell: Callable[[Any], None]) -> None:
    """Until it is killed. Tells ("asking", place of the user, operation), then ("answered", …, status, body)."""
    quiet()
    dice = random.Random(seed)
    async with opened(place) as world:
        tenants = {name: Tenant(world.strata, name, key) for name, key in keys.items()}

        async def live(number: int) -> None:
            user = users[number]
            while not user.erased and not user.locked_out:
                operation = next_operation(user, dice)
                user.under_way = operation
                tell(("asking", number, operation))
                answer = await request(world.strata, tenants[user.tenant], operation)
                body = answer.json() if answer.content else None
                tell(("answered", number, operation, answer.status_code, body))
                acknowledged(user, operation, answer.status_code, body)
                await asyncio.sleep(dice.uniform(0.2, 0.5) if answer.status_code in RETRIED else dice.uniform(0, 0.02))

        await asyncio.gather(*(live(number) for number in range(len(users))))


async def work(place: Place) -> None:
    """A curator's replica, until it is killed."""
    quiet()
    async with opened(place) as world:
        await world.workers.run()
