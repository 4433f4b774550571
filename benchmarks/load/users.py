"""The tenants, users and sessions that the load is of, made before it begins."""

import asyncio
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import yaml

from benchmarks.load.phrases import known
from benchmarks.load.schedule import Population
from benchmarks.service import Service

MANY = 1_000_000
AT_ONCE = 25
"""Entries imported in one call: each is encoded within the call's deadline, on a busy machine too."""
TRIES = 6
TURNS_PER_SESSION = 40
"""After so many turns a user begins another session, as users do; a session that only grew would make its last calls dearer."""
SESSION_S = 1500.0
"""A session's token is good for an hour, and one that nobody uses is kept for half an hour."""
_BACKLOG = re.compile(rb"^strata_index_backlog(?:\{[^}]*\})? ([0-9.e+]+)$", re.MULTILINE)


class Refused(Exception):
    """What was asked, and the answer: preparing the users failed."""

    def __init__(self, said: str, status: int = 0) -> None:
        super().__init__(said, status)
        self.status = status

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass
class Slot:
    """One of a user's sessions. `lock`: whoever finds it worn opens the next one, alone."""

    key: str
    user: str
    token: str = ""
    session: str = ""
    turns: int = 0
    opened: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def worn(self) -> bool:
        """Time for the next session: this one is long enough, or its token will expire."""
        return self.turns >= TURNS_PER_SESSION or time.monotonic() - self.opened > SESSION_S


def tenant_files(folder: Path, count: int, run: str) -> list[str]:
    """One file and one key a tenant in `folder`; the keys, in the tenants' order. Their quotas are out of the way: it is not they that
    are measured."""
    keys = []
    for number in range(count):
        name = f"load-{run}-{number:04d}"
        key = f"sk_{secrets.token_hex(6)}_{secrets.token_urlsafe(32)}"
        secret = folder / f"{name}.key"
        secret.touch(mode=0o600)
        secret.write_text(key)
        tenant = {
            "id": name,
            "keys": [{"name": "load", "secret": f"file:{secret}", "grants": ["memory", "import"]}],
            "policy": {"quotas": {"requests_per_minute": MANY, "sessions_per_user": 10_000}},
        }
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(tenant), "utf-8")
        keys.append(key)
    return keys


def declare(service: Service, folder: Path, count: int) -> list[str]:
    """`count` tenants of the service's own; their keys."""
    folder.mkdir(parents=True)
    keys = tenant_files(folder, count, secrets.token_hex(3))
    process = service.strata("tenants", "apply", "--config", str(service.config), "--dir", str(folder))
    said, _ = process.communicate(timeout=120)
    if process.returncode:
        raise Refused(f"strata tenants apply: {said[-2000:]}")
    return keys


async def ask(
    http: aiohttp.ClientSession, method: str, path: str, credential: str, body: Any = None, **headers: str
) -> Any:
    """The answer's JSON; Refused for anything but success."""
    headers = {"Authorization": f"Bearer {credential}", "Content-Type": "application/json", **headers}
    data = None if body is None else orjson.dumps(body)
    async with http.request(method, path, data=data, headers=headers) as answer:
        raw = await answer.read()
        if answer.status >= 300:
            raise Refused(f"{method} {path}: {answer.status} {raw[:300].decode(errors='replace')}", answer.status)
        return orjson.loads(raw) if raw else None


async def write(http: aiohttp.ClientSession, path: str, credential: str, body: Any, rest_s: float = 2.0) -> Any:
    """A POST that takes its time: what was too much, or too late, or is still being done, is asked for again under the same
    Idempotency-Key, so that nothing is written twice. Preparing users is not what is measured."""
    key = secrets.token_hex(16)
    for left in reversed(range(TRIES)):
        try:
            return await ask(http, "POST", path, credential, body, **{"Idempotency-Key": key})
        except Refused as refused:
            if not left or refused.status not in (409, 429, 503, 504):
                raise
        await asyncio.sleep(rest_s)
    raise AssertionError("the last try returns or raises")


async def open_session(http: aiohttp.ClientSession, slot: Slot) -> None:
    opened = await ask(http, "POST", "/v1/sessions", slot.key, {"user_id": slot.user})
    slot.token, slot.session, slot.turns, slot.opened = opened["token"], opened["session_id"], 0, time.monotonic()


async def populate(
    http: aiohttp.ClientSession, keys: Sequence[str], population: Population, entries: int
) -> dict[tuple[int, int, int], Slot]:
    """Every user has `entries` memories, indexed, and open sessions. By (tenant, user, session)."""
    run = secrets.token_hex(3)
    slots = {
        (tenant, user, session): Slot(keys[tenant], f"u{user}-{run}")
        for tenant in range(population.tenants)
        for user in range(population.users)
        for session in range(population.sessions)
    }

    async def settle(tenant: int, user: int) -> None:
        slot = slots[tenant, user, 0]
        texts = known(tenant * population.users + user, entries)
        for start in range(0, entries, AT_ONCE):
            part = [{"content": text} for text in texts[start : start + AT_ONCE]]
            await write(http, "/v1/memories", slot.key, {"user_id": slot.user, "mode": "verbatim", "memories": part})
        for session in range(population.sessions):
            await open_session(http, slots[tenant, user, session])

    users = [(tenant, user) for tenant in range(population.tenants) for user in range(population.users)]
    await _few_at_once(2, [partial(settle, *one) for one in users])
    await indexed(http)
    return slots


async def _few_at_once(limit: int, work: Sequence[Callable[[], Awaitable[None]]]) -> None:
    waiting = iter(work)

    async def worker() -> None:
        for each in waiting:
            await each()

    await asyncio.gather(*(worker() for _ in range(limit)))


async def indexed(http: aiohttp.ClientSession, within_s: float = 300.0) -> None:
    """Until nothing waits for the index, so that what was imported is not indexed at the cost of what is measured. Says nothing where
    the service does not tell its backlog to us."""
    until, calm = time.monotonic() + within_s, 0
    while time.monotonic() < until and calm < 3:
        await asyncio.sleep(1.1)  # longer than the Curator's poll: an old zero is not taken for a new one
        async with http.get("/metrics") as answer:
            found = _BACKLOG.search(await answer.read()) if answer.status == 200 else None
        if found is None:
            return
        calm = calm + 1 if float(found[1]) == 0 else 0
