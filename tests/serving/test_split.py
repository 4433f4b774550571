"""Three applications behind HAProxy, while replicas are killed, stopped, replaced, refused and multiplied: nobody's request fails."""

import asyncio
import fcntl
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import redis

from benchmarks.service import Service
from storage.sessions import valkey_server
from tests.serving.conftest import FEW
from tests.serving.replicas import (
    Stopped,
    application,
    deploy,
    eventually,
    kill,
    metric,
    options,
    replicas,
)
from tests.serving.traffic import PROBLEM, Traffic

pytestmark = [pytest.mark.serve, pytest.mark.model, pytest.mark.timeout(600)]

KINDS = {"Embedder": 1, "ContextAssembler": 2, "MemoryApi": 2, "Curator": 1}
PARTS = (0.5, 0.6, 0.4, 0.7, 0.3, 0.8, 0.2, 0.9) * 3
LONG = "in the mountains, by the sea, in spring and in autumn, with friends or alone, " * 20


def whole(service: Service, kinds: dict[str, int] = KINDS) -> dict[str, set[int]] | None:
    """The replicas' processes where there are as many as there should be and all answer."""
    found = {kind: replicas(service, kind) for kind in kinds}
    if any(len(found[kind]) != count for kind, count in kinds.items()) or not ready(service):
        return None
    return found


def ready(service: Service) -> bool:
    try:
        states = httpx.get(f"{service.url}/readyz", timeout=10, trust_env=False).json()["stores"]
        return set(states.values()) == {"ok"}
    except (httpx.HTTPError, ValueError, KeyError):
        return False


def session(service: Service, user: str) -> dict[str, str]:
    """The headers of a session of this user's."""
    answer = httpx.post(
        f"{service.url}/v1/sessions",
        json={"user_id": user},
        headers={"Authorization": f"Bearer {service.key}"},
        timeout=60,
        trust_env=False,
    )
    return {"Authorization": f"Bearer {answer.raise_for_status().json()['token']}"}


async def ask(service: Service, headers: dict[str, str], questions: list[str]) -> list[httpx.Response]:
    """All at once, a connection for each."""
    limits = httpx.Limits(max_connections=len(questions), max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=service.url, timeout=60, trust_env=False, limits=limits) as http:
        calls = (http.post("/v1/context", json={"query": question}, headers=headers) for question in questions)
        return list(await asyncio.gather(*calls))


def test_replicas_run_on_uvloop(split: Service) -> None:
    for kind, pids in eventually(lambda: whole(split), "every replica runs").items():
        for pid in pids:
            assert "/uvloop/loop" in Path(f"/proc/{pid}/maps").read_text(), kind


async def test_what_is_too_much_is_answered_429_with_retry_after(split: Service) -> None:
    """Backpressure: two replicas with FEW at once and FEW that wait take 4 x FEW; the model stands still, so none of them ends."""
    headers = session(split, "flood")
    (embedder,) = eventually(lambda: whole(split), "every replica runs")["Embedder"]
    with Stopped(embedder):
        answers = await ask(split, headers, [f"Which tea, number {number}?" for number in range(8 * FEW)])
    statuses = {answer.status_code for answer in answers}
    assert statuses == {200, 429}
    assert sum(answer.status_code == 200 for answer in answers) >= 2 * FEW
    assert all(int(answer.headers["Retry-After"]) >= 1 for answer in answers if answer.status_code == 429)
    # those that were taken lost the model, and nothing else
    assert all(set(answer.json()["degraded"]) <= {"embedder"} for answer in answers if answer.status_code == 200)


def test_p36_a_client_that_goes_takes_its_text_out_of_the_models_queue(split: Service) -> None:
    """Its question waits behind a busy device; it disconnects; the queue gets shorter without running it."""
    eventually(lambda: whole(split), "every replica runs")
    headers = session(split, "leaver")

    asked = [f"{number}: which tea {LONG}?" for number in range(2 * FEW)]
    began = time.monotonic()
    assert {answer.status_code for answer in asyncio.run(ask(split, headers, asked))} == {200}
    whole_s = time.monotonic() - began
    for part in PARTS:  # when texts are waiting depends on the machine: until they were
        cancelled, ran = queue(split)
        leave_after(split, headers, asked, part * whole_s)
        eventually(lambda: not metric(split, "strata_queue_items", model="embedder"), "the queue is empty")
        gone, done = (after - before for after, before in zip(queue(split), (cancelled, ran), strict=True))
        if gone:
            break
    assert gone > 0
    assert done < len(asked)


def leave_after(service: Service, headers: dict[str, str], questions: list[str], seconds: float) -> None:
    """Ask on a connection each, and hang up."""
    address = urlsplit(service.url)
    with ExitStack() as stack:
        for question in questions:
            body = json.dumps({"query": question}).encode()
            lines = ["POST /v1/context HTTP/1.1", f"Host: {address.netloc}", "Content-Type: application/json"]
            lines += [f"Content-Length: {len(body)}", f"Authorization: {headers['Authorization']}", "", ""]
            line = stack.enter_context(socket.create_connection((address.hostname, address.port), 30))
            line.sendall("\r\n".join(lines).encode() + body)
        time.sleep(seconds)


def queue(service: Service) -> tuple[float, float]:
    """Texts that were taken out of the model's queue because their caller had gone, and texts that were run."""
    return (
        metric(service, "strata_queue_refused_total", model="embedder", reason="cancelled"),
        metric(service, "strata_batch_items_sum", model="embedder"),
    )


def test_p40_every_store_is_away_and_no_replica_is_restarted(split: Service) -> None:
    before = eventually(lambda: whole(split), "every replica runs")
    with stores_away(split), httpx.Client(base_url=split.url, timeout=60, trust_env=False) as http:
        eventually(lambda: http.get("/readyz").status_code == 503, "readiness says that the stores are away")
        until = time.monotonic() + 16  # three rounds of the health checks
        while time.monotonic() < until:
            assert http.get("/healthz").status_code == 200
            time.sleep(1)
        assert set(http.get("/readyz").json()["stores"].items()) >= {("sessions", "away"), ("records", "away")}
    assert eventually(lambda: whole(split), "the stores are back") == before


@contextmanager
def stores_away(service: Service) -> Iterator[None]:
    """The session server stands still; of every database file somebody else holds all the locks."""
    files = [*service.home.rglob("*-shm")]
    assert files
    with redis.Redis.from_url(str(valkey_server.running(service.home))) as client:
        valkey = int(client.info("server")["process_id"])
    with ExitStack() as stack:
        stack.enter_context(Stopped(valkey))
        for path in files:
            held = stack.enter_context(path.open("r+b"))
            fcntl.lockf(held, fcntl.LOCK_EX, 8, 120)  # where SQLite keeps the locks of its write-ahead log
        yield


def test_a_replica_that_stands_still_is_replaced(split: Service) -> None:
    """A wedged loop answers no health check. Serve starts another and ends this one."""
    (wedged,) = eventually(lambda: whole(split), "every replica runs")["Curator"]
    os.kill(wedged, signal.SIGSTOP)
    eventually(lambda: wedged not in replicas(split, "Curator"), "the wedged one is gone")
    eventually(lambda: whole(split), "another one runs")


def test_s1_kill_9_of_every_kind_of_replica_under_load_fails_no_request(split: Service) -> None:
    before = eventually(lambda: whole(split), "every replica runs")
    with Traffic(split) as traffic:
        eventually(lambda: traffic.told["turns"] > 3 and traffic.told["context"] > 3, "traffic flows")
        victims = {kind: min(pids) for kind, pids in before.items()}
        for victim in victims.values():
            kill(victim)
            at = traffic.told["context"]
            eventually(lambda at=at: traffic.told["context"] > at + 2 or traffic.failures, "it goes on")
        after = eventually(lambda: whole(split), "every replica is back")
        at = traffic.told["context"]
        eventually(lambda: traffic.told["context"] > at + 5 or traffic.failures, "it goes on")
    assert traffic.failures == []
    assert all(victims[kind] not in after[kind] for kind in KINDS)


def test_s3_a_rolling_upgrade_under_load_fails_no_request(split: Service) -> None:
    """New arguments, so that every replica of every application is replaced. Old ones finish what they have."""
    before = eventually(lambda: whole(split), "every replica runs")

    def change(config: Any) -> None:
        for name in ("context", "memory"):
            application(config, name)["args"]["stores"]["policy_poll_s"] = 1.5
        application(config, "inference")["args"]["embedder"]["max_queue_items"] = 2048

    with Traffic(split) as traffic:
        eventually(lambda: traffic.told["context"] > 3, "traffic flows")
        deploy(split, change)
        eventually(lambda: renewed(split, before), "every replica is a new one")
        at = traffic.told["context"]
        eventually(lambda: traffic.told["context"] > at + 5 or traffic.failures, "it goes on")
    assert traffic.failures == []


def renewed(service: Service, before: dict[str, set[int]]) -> bool:
    after = whole(service)
    return after is not None and all(not before[kind] & after[kind] for kind in KINDS)


def test_s1_the_embedder_scales_1_3_1_with_its_tokens_and_fails_no_request(split: Service) -> None:
    eventually(lambda: whole(split), "every replica runs")
    quick = {
        "min_replicas": 1,
        "max_replicas": 3,
        "upscale_delay_s": 1,
        "downscale_delay_s": 5,
        "look_back_period_s": 5,
        "policy": {
            "policy_function": "deployments.scaling:QueuedTokens",
            "policy_kwargs": {"utilisation": 0.15, "drain_s": 1.0},
        },
    }

    def scaling(config: Any) -> None:
        options(config, "Embedder").pop("num_replicas", None)
        options(config, "Embedder")["autoscaling_config"] = quick

    deploy(split, scaling)
    with Traffic(split, callers=6, padding=LONG) as traffic:
        eventually(lambda: len(replicas(split, "Embedder")) == 3 and ready(split), "three Embedders", 180)
        at = traffic.told["context"]
        eventually(lambda: traffic.told["context"] > at + 10 or traffic.failures, "they work")
        kill(min(replicas(split, "Embedder")))  # the caller of the handle tries again, at another one
        at = traffic.told["context"]
        eventually(lambda: traffic.told["context"] > at + 10 or traffic.failures, "it goes on")
    with Traffic(split, callers=1, pause_s=1) as quiet:
        eventually(lambda: len(replicas(split, "Embedder")) == 1 or quiet.failures, "one Embedder again", 180)
    assert traffic.failures == quiet.failures == []
    assert traffic.told["broken"] == quiet.told["broken"] == 0


def test_a_problem_of_ours_is_a_problem_document_behind_haproxy(split: Service) -> None:
    answer = httpx.post(f"{split.url}/v1/context", json={}, timeout=60, trust_env=False)
    assert (answer.status_code, answer.headers["content-type"]) == (401, PROBLEM)
