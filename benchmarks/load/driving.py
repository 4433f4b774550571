"""Sending what was planned, when it was planned, whatever has been answered so far."""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

import aiohttp
import orjson

from benchmarks.load.figures import UNSENT, Outcome
from benchmarks.load.phrases import Questions, message
from benchmarks.load.schedule import Call, Planned
from benchmarks.load.users import Refused, Slot, open_session

TIMEOUT_S = 30.0
OPEN = "sessions"
_WHOLE = b'"degraded":[]'


def connect(url: str) -> aiohttp.ClientSession:
    """No limit on connections: how many calls are under way is the driver's to say."""
    return aiohttp.ClientSession(
        url, timeout=aiohttp.ClientTimeout(total=TIMEOUT_S), connector=aiohttp.TCPConnector(limit=0)
    )


@dataclass
class Driver:
    """Against one service. `outcomes` grow in the order of their ends; `late` says by how many seconds each call was sent too late."""

    http: aiohttp.ClientSession
    slots: dict[tuple[int, int, int], Slot]
    questions: Questions
    in_flight: int = 256
    outcomes: list[Outcome] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    asked: int = 0

    async def run(self, planned: Iterable[Planned]) -> None:
        """Returns when the last is answered, or has timed out. Over `in_flight` calls at once, a due one is not sent: UNSENT."""
        began = time.perf_counter()
        under_way: set[asyncio.Task[None]] = set()
        for one in planned:
            wait = one.at - (time.perf_counter() - began)
            if wait > 0:
                await asyncio.sleep(wait)
            if len(under_way) >= self.in_flight:
                self.outcomes.append(Outcome(one.call, one.at, 0.0, UNSENT))
                continue
            self.late.append(max(0.0, time.perf_counter() - began - one.at))
            task = asyncio.create_task(self._call(one, began))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
        while under_way:
            await asyncio.wait(under_way)

    async def _call(self, one: Planned, began: float) -> None:
        slot = self.slots[one.tenant, one.user, one.session]
        if slot.worn:
            await self._next_session(slot, began)
        path, body = self._request(one, slot)
        headers = {"Authorization": f"Bearer {slot.token}", "Content-Type": "application/json"}
        status, degraded = await self._answer(path, body, headers)
        self.outcomes.append(Outcome(one.call, one.at, time.perf_counter() - began - one.at, status, degraded))

    async def _next_session(self, slot: Slot, began: float) -> None:
        async with slot.lock:
            if not slot.worn:
                return
            start, status = time.perf_counter(), "201"
            try:
                await open_session(self.http, slot)
            except Refused as error:
                status = str(error.status)
            except (aiohttp.ClientError, TimeoutError) as error:
                status = type(error).__name__
            self.outcomes.append(Outcome(OPEN, start - began, time.perf_counter() - start, status))

    def _request(self, one: Planned, slot: Slot) -> tuple[str, bytes]:
        if one.call is Call.TURNS:
            slot.turns += 1
            text = message(one.number)
            return f"/v1/sessions/{slot.session}/turns", orjson.dumps({"turns": [{"role": "user", "content": text}]})
        self.asked += 1
        question = self.questions[self.asked]
        if one.call is Call.CONTEXT:
            return "/v1/context", orjson.dumps({"query": question, "budget_tokens": 2000})
        return "/v1/memories/search", orjson.dumps({"query": question})

    async def _answer(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[str, tuple[str, ...]]:
        try:
            async with self.http.post(path, data=body, headers=headers) as answer:
                raw = await answer.read()
        except TimeoutError:
            return "timeout", ()
        except aiohttp.ClientError as error:
            return type(error).__name__, ()
        if answer.status >= 300 or _WHOLE in raw:
            return str(answer.status), ()
        return str(answer.status), tuple(orjson.loads(raw).get("degraded") or ())
