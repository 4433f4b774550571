"""What a process is doing when it is killed: a request through the whole application, and the work that follows from it."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx
import structlog

from memory.ids import TenantId
from memory.scope import Grant, system_scope
from tests.end_to_end.harness import Strata, Talk, Tenant
from tests.faults.audit import Audit, audit, erasing, left_of_user
from tests.faults.steps import Steps, serve_only
from tests.faults.world import WORKERS, Place, World, opened

GRANTS = frozenset({Grant.MEMORY, Grant.ADMIN, Grant.IMPORT})
USER, BYSTANDER = "wei", "bystander"
KNOWN = ("I'm allergic to kiwi.", "I live in Berlin.", "Remember that my badge number is 4711.")
OTHERS, BYSTANDER_KNOWN = "My dog is called Biscuit.", "The user's dog is called Biscuit."
DRAIN_S = 90.0


@dataclass(frozen=True, slots=True)
class Told:
    """A tenant as it was before the story: its key, the user's session, the ids of what is known of him and of his turns."""

    tenant: str
    key: str
    session: str
    token: str
    memories: tuple[str, ...]
    turns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Story:
    """`act` is the request, with an Idempotency-Key; `expected` the user's live contents once it has been retried and worked off."""

    name: str
    act: Callable[[Tenant, Talk, Told], Awaitable[httpx.Response]]
    expected: tuple[str, ...]
    statuses: frozenset[int] = frozenset({200})
    """What the retry of a request that was done before may answer."""


_KIWI, _BERLIN, _BADGE = (
    "The user is allergic to kiwi.",
    "The user lives in Berlin.",
    "The user's badge number is 4711.",
)


def _keyed(name: str) -> dict[str, Any]:
    return {"headers": {"Idempotency-Key": f"story-{name}"}}


async def _create(shop: Tenant, talk: Talk, told: Told) -> httpx.Response:
    turns = {"turns": [{"role": "user", "content": "My cat is called Miso."}]}
    return await talk.strata.call("POST", f"/v1/sessions/{talk.id}/turns", talk.token, json=turns, **_keyed("create"))


async def _write(shop: Tenant, talk: Talk, told: Told) -> httpx.Response:
    body = {"user_id": USER, "content": "我对花生过敏。"}
    return await shop.call("POST", "/v1/memories", json=body, **_keyed("write"))


async def _update(shop: Tenant, talk: Talk, told: Told) -> httpx.Response:
    body = {"user_id": USER, "content": "The user lives in Oslo."}
    return await shop.call("PATCH", f"/v1/memories/{told.memories[1]}", json=body, **_keyed("update"))


async def _edit(shop: Tenant, talk: Talk, told: Told) -> httpx.Response:
    body = {"role": "user", "content": "I'm allergic to mango."}
    path = f"/v1/sessions/{talk.id}/turns/{told.turns[-1]}"
    return await talk.strata.call("PUT", path, talk.token, json=body, **_keyed("edit"))


async def _delete(shop: Tenant, talk: Talk, told: Told) -> httpx.Response:
    path = f"/v1/memories/{told.memories[0]}"
    return await shop.call("DELETE", path, params={"user_id": USER}, **_keyed("delete"))


async def _erase(shop: Tenant, talk: Talk, told: Told) -> httpx.Response:
    return await shop.call("DELETE", f"/v1/users/{USER}", **_keyed("erase"))


STORIES = {
    story.name: story
    for story in (
        Story("create", _create, (_KIWI, _BERLIN, _BADGE, "The user's cat is called Miso.")),
        Story("write", _write, (_KIWI, _BERLIN, _BADGE, "用户对花生过敏")),
        Story("update", _update, (_KIWI, "The user lives in Oslo.", _BADGE)),
        Story("edit", _edit, (_KIWI, _BERLIN, "The user is allergic to mango.")),
        Story("delete", _delete, (_BERLIN, _BADGE), frozenset({202, 404})),
        Story("erase", _erase, (), frozenset({202, 404})),
    )
}


# --- what runs in processes of its own --------------------------------------------------------------------------------


async def begin(place: Place, tenants: list[str]) -> list[Told]:
    """Tenants with a user of whom three things are known, and a bystander; all of it indexed."""
    quiet()
    async with opened(place) as world:
        told = [await _begin(world.strata, tenant) for tenant in tenants]
        await drain(world)
        return told


async def _begin(strata: Strata, name: str) -> Told:
    shop = await strata.tenant(name, grants=GRANTS)
    other = await shop.open(BYSTANDER)
    await other.say(OTHERS)
    talk = await shop.open(USER)
    said = [await talk.say(text) for text in KNOWN]
    return Told(
        tenant=name,
        key=shop.key,
        session=talk.id,
        token=talk.token,
        memories=tuple(answer["verdicts"][0]["memory_id"] for answer in said),
        turns=tuple(answer["turns"][0]["id"] for answer in said),
    )


async def tell(place: Place, name: str, told: Told, at: str | None = None, stop: bool = False) -> list[str]:
    """The story, and the work that follows, in this process; killed (or stopped) at step `at`. Returns the steps that it took."""
    quiet()
    serve_only(told.tenant)
    steps = Steps(at, stop).install()
    async with opened(place) as world:
        steps.armed = True
        answer = await act(world.strata, name, told)
        assert answer.status_code < 300, answer.text
        await drain(world, told.tenant)
        steps.armed = False
    return steps.seen


async def curate(place: Place, tenant: str, stop_at: str) -> None:
    """One pass of a worker that stops at a step, and whose own clock does not tell it, when it goes on, that its lease is over."""
    quiet()
    serve_only(tenant, lease_s=WORKERS.lease_s)
    steps = Steps(stop_at, stop=True).install()
    async with opened(place, WORKERS.model_copy(update={"lease_s": 3600.0})) as world:
        steps.armed = True
        await world.workers.curator.step()


async def recover(place: Place, tenants: list[str]) -> dict[str, Audit]:
    """A process that knows nothing works off what was left, and looks."""
    quiet()
    async with opened(place) as world:
        await drain(world)
        return {tenant: await audit(world.strata, tenant) for tenant in tenants}


async def retry(place: Place, name: str, batch: list[Told]) -> dict[str, tuple[int, Audit, dict[str, int]]]:
    """The same requests again, as their clients would: status, what the stores hold once it is worked off, and what they
    hold of the user where he was erased."""
    quiet()
    async with opened(place) as world:
        strata = world.strata
        statuses = {told.tenant: await _patiently(strata, name, told) for told in batch}
        await drain(world)
        found = {}
        for told in batch:
            left = await left_of_user(strata, told.tenant, USER) if name == "erase" else {}
            found[told.tenant] = (statuses[told.tenant], await audit(strata, told.tenant), left)
        return found


async def _patiently(strata: Strata, name: str, told: Told) -> int:
    """Until the claim of the process that died has run out."""
    until = time.monotonic() + DRAIN_S
    while True:
        answer = await act(strata, name, told)
        if answer.status_code != 409 or time.monotonic() > until:
            return answer.status_code
        await asyncio.sleep(0.3)


async def act(strata: Strata, name: str, told: Told) -> httpx.Response:
    shop = Tenant(strata, told.tenant, told.key)
    return await STORIES[name].act(shop, Talk(strata, told.session, told.token), told)


async def drain(world: World, tenant: str | None = None) -> None:
    """Until nothing waits and nothing is left to be verified, in `tenant` or anywhere."""
    records = world.strata.services.records
    scope = system_scope() if tenant is None else system_scope(TenantId(tenant))
    until = time.monotonic() + DRAIN_S
    while await world.work() or (await records.backlog(scope)).entries or await erasing(world.strata, tenant):
        assert time.monotonic() < until, "the queue does not get empty"
        await asyncio.sleep(WORKERS.grace_s)


def quiet() -> None:
    """A killed process's log says nothing that the audit does not."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
