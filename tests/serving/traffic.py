"""Callers that go on while replicas are killed, replaced and multiplied, and what they are promised.

A client does what docs/operations.md asks of it: a connection that broke is tried once more, a write with the same Idempotency-Key;
429 is come back to after Retry-After; a key whose first request is still running is asked for again. Everything else is a failure.
"""

import asyncio
import threading
import uuid
from collections import Counter
from typing import Any

import httpx

from benchmarks.service import Service

PROBLEM = "application/problem+json"
PAGE = 100
BUSY_S = 60.0
"""A key that a killed replica held is free again when that request's deadline and its margin are over."""


class Failed(Exception):
    pass


class Traffic:
    """`callers` users, each in a session of its own, one request at a time and `pause_s` before each, until the block ends. Then
    `failures` are what went wrong, and `told` says how often what happened."""

    def __init__(self, service: Service, callers: int = 4, padding: str = "", pause_s: float = 0.0) -> None:
        self._service, self._callers, self._padding, self._pause_s = service, callers, padding, pause_s
        self._ending = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._all()), name="traffic")
        self.failures: list[str] = []
        self.told: Counter[str] = Counter()

    def __enter__(self) -> "Traffic":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    async def _all(self) -> None:
        await asyncio.gather(*(self._caller(number) for number in range(self._callers)))

    async def _caller(self, number: int) -> None:
        limits = httpx.Limits(max_connections=1)
        async with httpx.AsyncClient(base_url=self._service.url, timeout=90, trust_env=False, limits=limits) as http:
            try:
                await self._talk(http, f"user-{number}-{uuid.uuid4().hex[:8]}")
            except Exception as error:
                self.failures.append(str(error) if isinstance(error, Failed) else repr(error))

    async def _talk(self, http: httpx.AsyncClient, user: str) -> None:
        """Questions and statements in turn; at the end, every acknowledged turn is there, once."""
        key = {"Authorization": f"Bearer {self._service.key}"}
        session = (await self._send(http, "/v1/sessions", {"user_id": user}, key)).json()
        bearer = {"Authorization": f"Bearer {session['token']}"}
        turns = f"/v1/sessions/{session['session_id']}/turns"
        said: list[str] = []
        round_ = 0
        while not self._ending.is_set():
            round_ += 1
            await asyncio.sleep(self._pause_s)
            if round_ % 3 == 0:
                said.append(f"I like tea number {round_}.")
                await self._send(http, turns, {"turns": [{"role": "user", "content": said[-1]}]}, bearer)
            else:
                question = f"Which tea do I like, number {round_}? {self._padding}"
                answer = (await self._send(http, "/v1/context", {"query": question}, bearer)).json()
                self.told.update(f"degraded:{part}" for part in answer["degraded"])
        listed = await self._send(http, f"{turns}?limit={PAGE}", None, bearer)
        kept = [turn["content"] for turn in listed.json()["items"]]
        if kept != said[:PAGE]:
            raise Failed(f"{len(said)} turns were acknowledged, {len(kept)} are there, or in another order")

    async def _send(self, http: httpx.AsyncClient, path: str, body: Any, headers: dict[str, str]) -> httpx.Response:
        """POST, or GET where there is no body."""
        method = "GET" if body is None else "POST"
        headers = {**headers, "Idempotency-Key": uuid.uuid4().hex}
        broken = 0
        loop = asyncio.get_running_loop()
        until = loop.time() + BUSY_S
        while True:
            try:
                answer = await http.request(method, path, json=body, headers=headers)
            except httpx.TransportError as error:
                answer, why = None, type(error).__name__
            if answer is not None and answer.status_code < 300:
                self.told[path.rsplit("/", 1)[-1]] += 1
                return answer
            ours = answer is not None and answer.headers.get("content-type") == PROBLEM
            if answer is None or (answer.status_code == 500 and not ours):  # HAProxy's own page: the replica went
                broken += 1
                self.told["broken"] += 1
                if broken > 1:
                    raise Failed(f"{path} broke twice: {why if answer is None else answer.status_code}")
            elif answer.status_code in (409, 429) and loop.time() < until:
                self.told[str(answer.status_code)] += 1
                await asyncio.sleep(float(answer.headers.get("Retry-After", 1)))
            else:
                raise Failed(f"{path} {answer.status_code} {answer.text[:300]}")
