"""`make bench` survives what a benchmark does, and shows it."""

import sys

import pytest
from rich.console import Console

import benchmarks.__main__ as bench
from benchmarks.__main__ import Bench, run, run_all
from benchmarks.report import Row, read_rows, tell

GOOD = """
import sys, pathlib
pathlib.Path(sys.argv[sys.argv.index("--json") + 1]).write_text('[{"what": "w", "ours": 3.0, "unit": "ms", "theirs": 2.0, "goal": 1.0}]')
"""
MODULES = {
    "good": GOOD,
    "silent": "print('nothing to say')",
    "broken": "raise SystemExit('the last word')",
    "other": GOOD.replace('"what"', '"that"'),
    "slow": "import time\nprint('begun', flush=True)\ntime.sleep(600)",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "somebenches"
    folder.mkdir()
    (folder / "__init__.py").touch()
    for name, text in MODULES.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "somebenches"


@pytest.mark.parametrize(
    ("name", "limit_s", "word"),
    [
        ("silent", 60, "no rows"),
        ("broken", 60, "the last word"),
        ("other", 60, "no rows"),
        ("slow", 5, "not done after 5 s"),
    ],
)
def test_a_benchmark_that_fails_is_told_with_what_it_said(package, name, limit_s, word):
    ended = run(Bench(name, limit_s), limit_s, package)
    assert not ended.rows and word in ended.error


def test_the_others_go_on_after_one_that_fails(package):
    ended = run_all([Bench("broken", 60), Bench("good", 60)], 120, Console(file=sys.stderr), package)
    assert [one.name for one in ended if one.error] == ["broken"]
    assert ended[1].rows == [Row("w", 3.0, "ms", theirs=2.0, goal=1.0)]


def test_what_no_time_is_left_for_is_not_begun(package):
    (ended,) = run_all([Bench("good", 60)], 1, Console(file=sys.stderr), package)
    assert "not begun" in ended.error


@pytest.mark.parametrize(("names", "status"), [(["good"], 0), (["good", "broken"], 1)])
def test_only_an_error_fails_the_command_and_a_missed_goal_does_not(package, monkeypatch, tmp_path, names, status):
    """The row of `good` misses its goal if lower is better; the exit status must not care."""
    monkeypatch.setitem(bench.__dict__, "ALL", tuple(Bench(name, 60) for name in names))
    monkeypatch.setitem(bench.__dict__, "run", lambda one, limit_s, _: run(one, limit_s, package))
    assert bench.main(["--only", *names, "--json", str(tmp_path / "rows.json")]) == status
    assert read_rows(tmp_path / "rows.json")


@pytest.mark.parametrize(
    ("row", "ratio", "met"),
    [
        (Row("a", 3, "ms", theirs=2, goal=2, better="lower"), 1.5, True),
        (Row("a", 5, "ms", theirs=2, goal=2, better="lower"), 2.5, False),
        (Row("a", 95, "texts/s", theirs=100, goal=0.95), 0.95, True),
        (Row("a", 94, "texts/s", theirs=100, goal=0.95), 0.94, False),
        (Row("a", 94, "texts/s"), None, None),
        (Row("a", 94, "texts/s", theirs=100), 0.94, None),
        (Row("a", 94, "texts/s", theirs=0, goal=1), None, None),
    ],
)
def test_a_row_says_whether_its_goal_is_met(row, ratio, met):
    assert (row.ratio, row.met) == (None if ratio is None else pytest.approx(ratio), met)


def test_rows_survive_being_kept(tmp_path):
    rows = [Row("某行", 1.5, "ms", "floor", 1.0, 2.0, "lower"), Row("alone", 2.0, "1/s")]
    tell(rows, "t", tmp_path / "rows.json")
    assert read_rows(tmp_path / "rows.json") == rows
