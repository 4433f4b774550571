"""The load harness' own arithmetic: if it lies, every figure does."""

import asyncio
import math
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import numpy as np
import psutil
import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from benchmarks.load.driving import Driver, connect
from benchmarks.load.figures import (
    ALL,
    UNSENT,
    Bound,
    Outcome,
    latencies,
    next_rate,
    percentile,
    slope,
    step,
    student,
)
from benchmarks.load.phrases import KEPT_EVERY, Questions, known, message
from benchmarks.load.processes import RAY, Watch, kind_of, spent
from benchmarks.load.schedule import Call, Planned, Population, arrivals, parse_mix, plan, zipf_shares
from benchmarks.load.users import Refused, Slot, tenant_files, write
from deployments.tenancy import key_text, read_tenant_files
from memory.gate import judge
from memory.ids import TurnId
from memory.policy import Policy
from memory.turns import Role, Turn


def test_the_same_seed_plans_the_same_calls_and_another_others():
    mix = parse_mix("turns=4,context=5,search=1")
    first, again, other = (list(plan(50, 20, mix, Population(), seed)) for seed in (1, 1, 2))
    assert first == again != other
    assert [one.number for one in first] == list(range(len(first)))


def test_arrivals_are_poisson():
    times = arrivals(100, 1000, np.random.default_rng(3))
    gaps = np.diff(times)
    assert (times >= 0).all() and (times < 1000).all() and (gaps >= 0).all()
    assert len(times) == pytest.approx(100_000, rel=0.02)
    assert gaps.mean() == pytest.approx(0.01, rel=0.02)
    assert gaps.std() == pytest.approx(0.01, rel=0.03)  # an even beat would have 0
    assert (gaps > 0.02).mean() == pytest.approx(math.exp(-2), rel=0.05)


def test_the_mix_and_the_skew_are_what_was_asked_for():
    planned = list(plan(1000, 40, parse_mix("turns=3,context=1"), Population(4, 2, 2, 1.0), 5))
    calls = Counter(one.call for one in planned)
    assert calls[Call.TURNS] / len(planned) == pytest.approx(0.75, abs=0.01)
    tenants = Counter(one.tenant for one in planned)
    assert tenants[0] / tenants[1] == pytest.approx(2, rel=0.05)
    assert tenants[0] / tenants[3] == pytest.approx(4, rel=0.1)
    assert {one.user for one in planned} == {one.session for one in planned} == {0, 1}


@pytest.mark.parametrize("skew", [0.0, 0.5, 1.0, 2.0])
def test_zipf_shares_fall_and_sum_to_one(skew):
    shares = zipf_shares(10, skew)
    assert shares.sum() == pytest.approx(1)
    assert shares[0] / shares[9] == pytest.approx(10**skew)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("turns", "weight"),
        ("chat=1", "calls are"),
        ("turns=1,turns=2", "twice"),
        ("turns=0", "over 0"),
        ("turns=-1", "from 0"),
    ],
)
def test_a_wrong_mix_says_what_is_wrong(text, word):
    with pytest.raises(ValueError, match=word):
        parse_mix(text)


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([1], 0.5, 1),
        ([3, 1, 2, 4], 0.5, 2),
        ([*range(1, 101)], 0.99, 99),
        ([*range(1, 101)], 0.95, 95),
        ([1, 2], 1.0, 2),
    ],
)
def test_percentiles_are_nearest_ranks(values, share, expected):
    assert percentile(values, share) == expected


def test_latency_counts_answers_only_and_each_call_apart():
    outcomes = [
        Outcome("context", 0.0, 0.010, "200"),
        Outcome("context", 0.1, 0.030, "200", ("embedder",)),
        Outcome("turns", 0.2, 0.005, "200"),
        Outcome("turns", 0.3, 9.0, "503"),
        Outcome("turns", 0.4, 0.0, UNSENT),
    ]
    found = step(5, 1.0, outcomes, late=[0.001, 0.002], cpu={"embedder": 0.3})
    assert (found.offered, found.answered, found.errors) == (5, 3, {"503": 1, UNSENT: 1})
    assert found.error_share == pytest.approx(0.4)
    assert found.degraded == {"embedder": 1}
    assert found.latency["context"].p99 == pytest.approx(30) and found.latency["turns"].count == 1
    assert found.latency[ALL].count == 3
    assert found.cpu_ms == {"embedder": pytest.approx(100)}
    assert found.late_ms == pytest.approx(2)


def test_a_window_of_a_soak_is_reckoned_from_its_own_beginning():
    outcomes = [Outcome("turns", 60 + n / 10, 0.05, "200") for n in range(100)]
    assert step(10, 10.0, outcomes, begins=60.0).per_second == pytest.approx(10, rel=0.01)


def test_throughput_is_reckoned_to_the_last_answer():
    """A service that answers ten calls of one second in ten has not carried ten a second."""
    found = step(10, 1.0, [Outcome("turns", n / 10, 10 - n / 10, "200") for n in range(10)])
    assert found.per_second == pytest.approx(1.0)
    assert not Bound(p99_ms=1e9).holds(found)


@pytest.mark.parametrize(
    ("tried", "expected"),
    [
        ([], 5.0),
        ([(5.0, True)], 8.0),
        ([(5.0, False)], 2.5),
        ([(5.0, True), (8.0, False)], math.sqrt(40)),
        ([(5.0, True), (5.4, False)], None),
        ([(rate, False) for rate in (16, 8, 4, 2, 1)], None),
        (
            [(4.0, True), (5.0, False), (10.0, True), (16.0, False)],
            math.sqrt(160),
        ),  # noise below does not end the search
    ],
)
def test_the_search_for_the_highest_rate(tried, expected):
    assert next_rate(tried, 5.0) == (None if expected is None else pytest.approx(expected))


def test_the_search_ends_near_the_true_bound():
    tried = []
    while (rate := next_rate(tried, 5.0)) is not None:
        tried.append((rate, rate <= 37.0))
    best = max(rate for rate, held in tried if held)
    assert len(tried) <= 12 and 37 / 1.1 <= best <= 37


def test_a_slope_is_found_under_noise_and_flat_is_not_growth():
    rng = np.random.default_rng(11)
    seconds = np.arange(0, 3600, 15.0)
    noise = rng.normal(0, 2, len(seconds))
    growing = slope(seconds, 300 + 12 * seconds / 3600 + noise)
    assert growing.per_hour == pytest.approx(12, abs=growing.within) and growing.grows
    flat = slope(seconds, 300 + noise)
    assert not flat.grows and abs(flat.per_hour) <= flat.within * 1.5
    assert slope(seconds, np.full(len(seconds), 300.0)).per_hour == pytest.approx(0)
    assert math.isnan(slope([1, 2], [1, 2]).per_hour)


def test_the_interval_of_a_slope_covers_what_made_it_even_where_samples_hang_together():
    """19 of 20 at least: memory wanders, and wandering must not pass for a leak."""
    rng = np.random.default_rng(12)
    seconds = np.arange(0, 3600, 15.0)
    covered = 0
    for _ in range(200):
        wander = np.zeros(len(seconds))
        for place in range(1, len(seconds)):
            wander[place] = 0.7 * wander[place - 1] + rng.normal(0, 1)
        found = slope(seconds, 300 + 5 * seconds / 3600 + wander)
        covered += abs(found.per_hour - 5) <= found.within
    assert covered >= 180


@pytest.mark.parametrize(("freedom", "expected"), [(3, 3.182), (5, 2.571), (10, 2.228), (30, 2.042), (200, 1.972)])
def test_students_t(freedom, expected):
    assert student(freedom) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("ray::ServeReplica:context:ContextAssembler ray::ServeReplica:context:ContextAssembler", "assembler"),
        ("ray::ServeReplica:inference:Embedder.embed", "embedder"),
        ("ray::ServeReplica:memory:MemoryApi ray::ServeReplica:memory:MemoryApi", "memory api"),
        ("haproxy haproxy -f /x/haproxy.cfg", "HAProxy"),
        ("valkey-server valkey-server unixsocket:/x", "session server"),
        ("raylet raylet --raylet_socket_name=/x", RAY),
    ],
)
def test_processes_are_told_apart(title, kind):
    assert kind_of(title).lower() == kind.lower()


def test_cpu_between_two_looks_counts_new_processes_whole():
    assert spent({"a": 1.0}, {"a": 1.5, "b": 0.25}) == {"a": 0.5, "b": 0.25}


def test_one_message_in_five_is_kept_in_both_languages():
    """What the gate keeps is what learning costs: the mix has to hold still."""
    kept = [number for number in range(540) if _accepted(message(number))]
    assert kept == [number for number in range(540) if number % KEPT_EVERY == 0]
    chinese = sum(any("一" <= c <= "鿿" for c in message(number)) for number in range(540))
    assert 200 <= chinese <= 340


def _accepted(text: str) -> bool:
    turn = Turn(TurnId("t"), 1, Role.USER, text, tokens=1, at=datetime(2026, 1, 1, tzinfo=UTC))
    return any(one.accepted for one in judge(turn, policy=Policy().gate))


def test_users_know_different_things_and_questions_do_not_repeat():
    assert not set(known(0, 20)) & set(known(1, 20))
    asked = Questions(1000)
    assert len({asked[number] for number in range(3000)}) == 3000


def test_generated_tenants_are_what_the_product_reads(tmp_path):
    keys = tenant_files(tmp_path, 3, "r")
    read = read_tenant_files(tmp_path)
    assert [key_text(tenant.keys[0], tmp_path) for tenant in read] == keys
    assert all(tenant.policy.quotas.requests_per_minute >= 1_000_000 for tenant in read)


@asynccontextmanager
async def serving(answer: Handler) -> AsyncIterator[str]:
    """A service that answers every POST so."""
    application = web.Application()
    application.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_an_open_loop_counts_from_the_intended_start_and_what_it_could_not_send():
    """Two calls may be under way; the service holds every answer until the third was due: that one is counted, never queued."""
    free, both = asyncio.Event(), asyncio.Event()
    seen: list[bytes] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(await request.read())
        if len(seen) == 2:
            both.set()
        await free.wait()
        return web.json_response({"degraded": ["index"]})

    slots = {(0, 0, 0): Slot("key", "u", token="t", session="s", opened=time.monotonic())}
    async with serving(answer) as url, connect(url) as http:
        driver = Driver(http, slots, Questions(10), in_flight=2)
        calls = [
            Planned(0.0, call, 0, 0, 0, number) for number, call in enumerate((Call.CONTEXT, Call.SEARCH, Call.TURNS))
        ]
        running = asyncio.create_task(driver.run(iter(calls)))
        async with asyncio.timeout(60):
            await both.wait()
            free.set()
            await running
    assert Counter(outcome.status for outcome in driver.outcomes) == {"200": 2, UNSENT: 1}
    assert [outcome.call for outcome in driver.outcomes if outcome.status == UNSENT] == [Call.TURNS]
    assert all(outcome.degraded == ("index",) for outcome in driver.outcomes if outcome.answered)
    assert len(driver.late) == 2
    assert set(latencies(driver.outcomes)) == {ALL, "context", "search"}


async def test_a_session_that_is_worn_is_followed_by_the_next_and_its_opening_is_counted_apart():
    """An hour of load must not end in expired tokens, nor grow sessions that no user has."""
    paths: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        paths.append(request.path)
        if request.path == "/v1/sessions":
            return web.json_response({"token": "next", "session_id": "s2"}, status=201)
        assert request.headers["Authorization"] == "Bearer next"
        return web.json_response({"degraded": []})

    async with serving(answer) as url, connect(url) as http:
        driver = Driver(http, {(0, 0, 0): Slot("key", "u", token="old", session="s1", turns=40)}, Questions(10))
        await driver.run(iter([Planned(0.0, Call.TURNS, 0, 0, 0, number) for number in range(3)]))
    assert paths.count("/v1/sessions") == 1 and paths.count("/v1/sessions/s2/turns") == 3
    assert Counter(outcome.call for outcome in driver.outcomes) == {"sessions": 1, "turns": 3}
    assert all(outcome.answered for outcome in driver.outcomes)


def test_processes_are_found_by_their_home_and_what_ended_is_not_forgotten(tmp_path):
    """By STRATA_HOME, by the folder that a process works in, or because it was named; and nobody else's."""
    waits = [sys.executable, "-c", "import sys; sum(range(3_000_000)); print('up', flush=True); sys.stdin.read()"]
    plain = {name: value for name, value in os.environ.items() if name != "STRATA_HOME"}
    ours = subprocess.Popen(
        waits, env={**plain, "STRATA_HOME": str(tmp_path)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    inside = subprocess.Popen(waits, env=plain, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    server = subprocess.Popen(waits, env=plain, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    others = subprocess.Popen(waits, env=plain, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    children = (ours, inside, server, others)
    try:
        for child in children:
            assert child.stdout.readline() == b"up\n"
        watch = Watch(tmp_path, {"index server": psutil.Process(server.pid)})
        used, memory = watch.cpu(), watch.memory()
        assert {kind: size.processes for kind, size in memory.items()} == {RAY: 2, "index server": 1}
        assert all(size.resident >= size.unique > 0 for size in memory.values())
        assert used[RAY] > 0 and used["index server"] > 0
        for child in children:
            child.communicate()
        assert watch.cpu() == used
        assert watch.memory() == {}
    finally:
        for child in children:
            child.kill()
            child.wait()


@pytest.mark.parametrize(("answers", "tries"), [([201], 1), ([504, 429, 201], 3), ([400], 1), ([503] * 9, 6)])
async def test_preparing_users_is_patient_and_writes_nothing_twice(answers, tries):
    """A busy machine must not end a benchmark; a refusal that will stay one does."""
    keys: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        keys.append(request.headers["Idempotency-Key"])
        return web.json_response({}, status=answers[len(keys) - 1])

    async with serving(answer) as url, connect(url) as http:
        if answers[tries - 1] == 201:
            assert await write(http, "/v1/memories", "key", {}, rest_s=0.0) == {}
        else:
            with pytest.raises(Refused, match=str(answers[tries - 1])):
                await write(http, "/v1/memories", "key", {}, rest_s=0.0)
    assert len(keys) == tries and len(set(keys)) == 1
