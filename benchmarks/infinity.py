"""infinity-emb as a peer of benchmarks.embed: in an environment and a process of its own, since its dependencies are not ours.

The environment lies under STRATA_HOME and is made once, on request. The process embeds the same texts with the same model, with as many
callers at once, on one thread, whenever it is told to (benchmarks/infinity_worker.py), so that its turns alternate with the others'.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

import torch

from models.settings import strata_home

VERSION = "0.0.77"
_START_S, _INSTALL_S = 120, 900
_WORKER = Path(__file__).with_name("infinity_worker.py")


def environment() -> Path:
    return strata_home() / "benchmarks" / f"infinity-emb-{VERSION}"


def installed() -> bool:
    return (environment() / "whole").is_file()


def install() -> str | None:
    """Make the environment, or say in one line why not."""
    if installed():
        return None
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if uv is None:
        return "infinity-emb is not measured: there is no uv to make its environment with"
    shutil.rmtree(environment(), ignore_errors=True)
    python = environment() / "bin" / "python"
    wanted = [
        f"infinity-emb[torch]=={VERSION}",
        f"torch=={torch.__version__.partition('+')[0]}",
        "click<8.2",
        "transformers<5",
    ]
    for command in (
        [uv, "venv", "-q", "--python", "3.11", str(environment())],
        [uv, "pip", "install", "-q", "--python", str(python), *wanted],
        [
            uv,
            "pip",
            "uninstall",
            "-q",
            "--python",
            str(python),
            "optimum",
        ],  # its newer ones lack what infinity asks them for
    ):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_S, check=False)
        except subprocess.TimeoutExpired:
            return f"infinity-emb is not measured: its environment was not made within {_INSTALL_S} s"
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            return f"infinity-emb is not measured: its environment cannot be made ({last})"
    (environment() / "whole").touch()
    return None


class Infinity:
    """The process. RuntimeError where it does not start; use it as a context."""

    def __init__(self, model: Path, texts: Sequence[str], callers: int, at_once: int) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="infinity-")
        folder = Path(self._folder.name)
        given = folder / "texts.json"
        given.write_text(json.dumps({"texts": list(texts), "callers": callers, "at_once": at_once}), "utf-8")
        environ = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(folder),
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "DO_NOT_TRACK": "1",
            "INFINITY_ANONYMOUS_USAGE_STATS": "0",
        }
        self._said = (folder / "log").open("w+", encoding="utf-8")
        self._process = subprocess.Popen(
            [str(environment() / "bin" / "python"), str(_WORKER), str(_readable(model, folder / "model")), str(given)],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
        )
        self.dtype = str(self._answer().get("dtype"))

    def run(self) -> tuple[float, float]:
        """All texts once: seconds of the clock, seconds of CPU."""
        _stream(self._process.stdin).write("run\n")
        _stream(self._process.stdin).flush()
        answer = self._answer()
        return float(answer["wall"]), float(answer["cpu"])

    def _answer(self) -> dict[str, str | float]:
        for line in _stream(self._process.stdout):
            if line.startswith("{"):
                answer: dict[str, str | float] = json.loads(line)
                return answer
        self._said.seek(0)
        last = (self._said.read().strip().splitlines() or ["it said nothing"])[-1]
        raise RuntimeError(f"infinity-emb ended: {last}")

    def __enter__(self) -> "Infinity":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._said.close()
        self._folder.cleanup()


def _readable(model: Path, folder: Path) -> Path:
    """The same files by links, but for the name of the tokenizer's class, which transformers 4 does not know."""
    shutil.copytree(model, folder, copy_function=os.symlink)
    config = folder / "tokenizer_config.json"
    named = json.loads(config.read_text("utf-8")) | {"tokenizer_class": "PreTrainedTokenizerFast"}
    config.unlink()
    config.write_text(json.dumps(named), "utf-8")
    return folder


def _stream(of_process: IO[str] | None) -> IO[str]:
    assert of_process is not None
    return of_process
