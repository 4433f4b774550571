"""Lines are JSON, one each, found by trace, request and tenant; nothing of an exception's text."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from deployments.telemetry import logs
from tests.telemetry.speaking import CANARY

ROOT = Path(__file__).resolve().parents[2]


def spoken(**environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != logs.ENVIRONMENT}
    return subprocess.run(
        [sys.executable, "-m", "tests.telemetry.speaking"],
        env={**clean, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


def read(text: str) -> dict[str, dict[str, Any]]:
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return {line["event"]: line for line in lines}


def test_every_line_is_json_with_the_ids_it_is_found_by() -> None:
    said = spoken().stdout
    assert said.splitlines()[-1] == "printed"
    lines = read(said)
    assert set(lines) == {"outside", "request", "the model failed on a batch of 3", "broke", "odd"}
    assert lines["outside"]["logger"] == "strata.early"
    assert "trace_id" not in lines["outside"]
    for event in ("request", "the model failed on a batch of 3", "broke", "odd"):
        line = lines[event]
        assert line["trace_id"] == "4bf92f3577b34da6a3ce929d0e0e4736"
        assert len(line["span_id"]) == 16
        assert (line["request_id"], line["tenant"]) == ("req-of-somebody", "shop")
        assert line["deployment"] == "MemoryApi"
        assert line["timestamp"].endswith("Z")
    assert (lines["request"]["level"], lines["request"]["ms"]) == ("info", 1.5)
    assert (lines["broke"]["level"], lines["broke"]["kind"]) == ("error", "ValueError")
    assert lines["odd"]["value"] == "<object>"
    assert CANARY not in said


def test_lines_go_to_the_file_that_is_named(tmp_path: Path) -> None:
    path = tmp_path / "strata.jsonl"
    said = spoken(STRATA_LOGS=str(path))
    assert said.stdout == "printed\n"
    assert len(path.read_text().splitlines()) == 5


def test_a_place_that_cannot_be_written_is_no_reason_to_stop(tmp_path: Path) -> None:
    said = spoken(STRATA_LOGS=str(tmp_path / "no" / "such" / "folder"))
    assert "request" in read(said.stdout)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MOST_BYTES", 4000)
    monkeypatch.setattr(logs, "LOOK_EVERY", 10)


def test_a_file_is_bounded_and_no_line_is_torn(tmp_path: Path, small: None) -> None:
    """Several writers of one file, as replicas are: each has it open by itself."""
    path = tmp_path / "lines"
    writers = [logs.LogFile(path) for _ in range(4)]
    line = json.dumps({"event": "x" * 60}) + "\n"

    def write(writer: logs.LogFile) -> None:
        for _ in range(200):
            writer.write(line)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, writers))
    kept = sorted(path.parent.iterdir())
    assert [one.name for one in kept] == ["lines", "lines.1"]
    for one in kept:
        assert one.stat().st_size < 4000 + 4 * 11 * len(line)
        assert set(one.read_text().splitlines(keepends=True)) <= {line}


def test_a_pipe_is_written_to_as_it_is(small: None) -> None:
    """/proc/1/fd/1 of a container is one."""
    reading, writing = os.pipe()
    file = logs.LogFile(Path(f"/proc/self/fd/{writing}"))
    for number in range(30):
        file.write(f"{number}\n")
    os.close(writing)
    os.close(file._file)
    with os.fdopen(reading) as pipe:
        assert pipe.read().splitlines() == [str(number) for number in range(30)]
