"""The house: imports run one way, files stay small, nothing is installed that does not fit."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("memory", "models", "storage", "deployments", "benchmarks")


def test_imports_run_one_way() -> None:
    """deployments -> {models, storage} -> memory; the rules know no I/O, no Ray, no clock (pyproject.toml: importlinter)."""
    lint = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run(
        [str(lint), "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("room", ROOMS)
def test_no_file_is_over_400_lines(room: str) -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in (ROOT / room).rglob("*.py")
        if (lines := len(path.read_text("utf-8").splitlines())) > 420
    }
    assert not long


def test_no_drawer_is_named_utils() -> None:
    assert not [path for room in ROOMS for path in (ROOT / room).rglob("*util*.py")]


def test_installed_packages_agree() -> None:
    """Serve's and Weaviate's gRPC stacks only agree when resolved together."""
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    if not Path(uv).exists():
        pytest.skip("uv is not installed here; `make test` installs it")
    result = subprocess.run(
        [uv, "pip", "check", "--python", sys.executable], capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
