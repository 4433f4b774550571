"""Many processes, one exposition: sums never fall when a process dies, and neither files nor series pile up."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from deployments.telemetry import exporter, processes
from deployments.telemetry.exposition import exposition

COUNT = "strata_http_requests_total"
BUCKET = "strata_http_request_seconds_bucket"


class Counting:
    """One process that has counted `times` requests."""

    def __init__(self, folder: Path, times: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.telemetry.counting", str(times)],
            env={**os.environ, processes.ENVIRONMENT: str(folder)},
            cwd=Path(__file__).resolve().parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.pid = int(self._process.stdout.readline())

    def end(self, how: signal.Signals | None = None) -> None:
        if how is None:
            self._process.communicate(timeout=60)
        else:
            self._process.send_signal(how)
            self._process.wait(60)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where all count; this process only reads."""
    monkeypatch.setenv(processes.ENVIRONMENT, str(tmp_path))
    monkeypatch.setattr("deployments.telemetry.exposition.BURY_EVERY_S", 0.0)
    return tmp_path


def samples(text: str) -> dict[tuple[str, str], float]:
    """By name and what tells them apart here: `le`, or the deployment."""
    return {
        (one.name, one.labels.get("le") or one.labels.get("deployment") or ""): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if one.labels.get("route", "/v1/context") == "/v1/context"
    }


def now() -> dict[tuple[str, str], float]:
    return samples(exposition().decode())


def test_what_the_dead_counted_stays_counted(folder: Path) -> None:
    first, second = Counting(folder, 3), Counting(folder, 4)
    assert now()[COUNT, ""] == 7
    assert now()["strata_replica_up", "MemoryApi"] == 2
    first.end(signal.SIGKILL)
    second.end()
    assert now()[COUNT, ""] == 7
    assert now()[BUCKET, "0.005"] == now()[BUCKET, "+Inf"] == now()["strata_http_request_seconds_count", ""] == 7
    assert ("strata_replica_up", "MemoryApi") not in now()
    third = Counting(folder, 5)
    assert now()[COUNT, ""] == 12
    assert now()["strata_replica_up", "MemoryApi"] == 1
    assert now()["strata_index_backlog", ""] == 5
    third.end(signal.SIGKILL)
    assert now()[COUNT, ""] == 12


def test_files_do_not_pile_up(folder: Path) -> None:
    kept = set()
    for round_ in range(4):
        Counting(folder, 1).end(signal.SIGKILL)
        assert now()[COUNT, ""] == round_ + 1
        kept.add(frozenset(path.name for path in folder.iterdir()))
    assert kept == {frozenset({"folder.lock", "counter_archive.db", "histogram_archive.db"})}


def test_a_file_cut_off_when_its_process_was_killed_spoils_nothing(folder: Path) -> None:
    living, dead = Counting(folder, 2), Counting(folder, 1)
    dead.end(signal.SIGKILL)
    (folder / f"histogram_{dead.pid}.db").write_bytes(b"")
    assert now()[COUNT, ""] == 3
    assert now()["strata_http_request_seconds_count", ""] == 2
    living.end()


def test_a_process_that_is_given_a_dead_ones_id_begins_anew(folder: Path) -> None:
    """As in a container that is started again: ids begin at the same numbers."""
    (folder / f"alive_{os.getpid()}.lock").touch()
    processes.hold()
    try:
        assert processes.bury(folder) == 0
        assert (folder / f"alive_{os.getpid()}.lock").exists()
    finally:
        os.close(processes._held.pop(os.getpid()))
    assert processes.bury(folder) == 1


def test_processes_that_are_not_ours_are_left_alone(folder: Path) -> None:
    """Ray's dashboard inherits the environment and counts there as well: it has an endpoint of its own."""
    script = "from prometheus_client import Counter; Counter('ray_something', 'x').inc()"
    subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, processes.ENVIRONMENT: str(folder)},
        check=True,
        timeout=60,
    )
    ours = Counting(folder, 1)
    assert len(list(folder.glob("counter_*.db"))) == 2
    assert "ray_something" not in exposition().decode()
    assert now()[COUNT, ""] == 1
    ours.end()


def test_readers_and_deaths_at_once_never_see_a_sum_fall(folder: Path) -> None:
    living = [Counting(folder, 10) for _ in range(4)]
    seen: list[float] = []
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            seen.append(now()[COUNT, ""])

    with ThreadPoolExecutor(2) as pool:
        looking = [pool.submit(look) for _ in range(2)]
        for process in living:
            process.end(signal.SIGKILL)
            now()
        over.set()
        for one in looking:
            one.result(60)
    assert set(seen) == {40.0}


@pytest.fixture
def exported(folder: Path) -> Iterator[int]:
    server = exporter.serve("127.0.0.1", 0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join(20)


def get(port: int, path: str) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_the_exporter_answers_for_all_of_a_pod(folder: Path, exported: int) -> None:
    assert get(exported, "/healthz") == (200, "ok\n")
    assert get(exported, "/metrics") == (200, "")  # nobody has counted yet
    assert get(exported, "/secrets")[0] == 404
    one = Counting(folder, 2)
    assert samples(get(exported, "/metrics")[1])[COUNT, ""] == 2
    one.end(signal.SIGKILL)
    assert samples(get(exported, "/metrics")[1])[COUNT, ""] == 2


def test_the_exporter_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv(processes.ENVIRONMENT, raising=False)
    assert exporter.main([]) == 2
    assert processes.ENVIRONMENT in capsys.readouterr().err


def test_the_exporter_ends_when_it_is_told_to(folder: Path) -> None:
    """As Kubernetes tells it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "deployments.telemetry.exporter", "--host", "127.0.0.1", "--port", "0"],
        cwd=Path(__file__).resolve().parents[2],
        env={**os.environ, processes.ENVIRONMENT: str(folder / "new")},
    )
    try:
        waiting = threading.Event()
        while not (folder / "new").is_dir():
            assert process.poll() is None
            waiting.wait(0.05)
        waiting.wait(0.5)  # it makes the folder, then listens, then heeds the signal
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (0, -signal.SIGTERM)
    finally:
        process.kill()
