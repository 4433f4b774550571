"""The folder in which the processes of one machine (or pod) count, and who of them still lives.

Each process holds a lock on a file of its own: what can be locked is dead. Process ids would not do: a container sees its own only.
What the dead counted stays counted, added up in one archive for each kind, so that sums never fall and files never pile up.
"""

import contextlib
import fcntl
import os
import struct
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prometheus_client import mmap_dict

ENVIRONMENT = "PROMETHEUS_MULTIPROC_DIR"
ADDED_UP = ("counter", "histogram", "summary")
_ARCHIVE = "archive"

_MmapedDict: Any = mmap_dict.MmapedDict  # untyped
_held: dict[int, int] = {}


def folder() -> Path | None:
    """Where processes count, if each does so by itself."""
    name = os.environ.get(ENVIRONMENT)
    return Path(name) if name else None


def hold() -> None:
    """This process lives, until it ends. Before its first metric is made."""
    where = folder()
    if where is None or os.getpid() in _held:
        return
    where.mkdir(parents=True, exist_ok=True)
    path = where / f"alive_{os.getpid()}.lock"
    while True:
        descriptor = os.open(path, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0o644)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is(descriptor, path):
            _held[os.getpid()] = descriptor
            return
        os.close(descriptor)  # somebody took it away as a dead one's, just before it was ours


def _is(descriptor: int, path: Path) -> bool:
    try:
        return os.fstat(descriptor).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def _locked(where: Path, how: int) -> Iterator[None]:
    descriptor = os.open(where / "folder.lock", os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def reading(where: Path) -> Iterator[list[str]]:
    """The files to add up: of our processes, living or dead. Others count there too, because Ray's own processes inherit our
    environment; these have endpoints of their own. Nothing is moved meanwhile."""
    with _locked(where, fcntl.LOCK_SH):
        ours = {_ARCHIVE, *(path.stem.removeprefix("alive_") for path in where.glob("alive_*.lock"))}
        yield [str(path) for path in where.glob("*.db") if path.stem.rpartition("_")[2] in ours]


def bury(where: Path) -> int:
    """Add what dead processes counted to the archives and remove their files. Returns how many processes there were."""
    with _locked(where, fcntl.LOCK_EX), contextlib.ExitStack() as held:
        # Their locks are kept meanwhile: a new process that is given such an id waits, and then begins with files of its own.
        dead = [path for path in where.glob("alive_*.lock") if _gripped(path, held)]
        if not dead:
            return 0
        pids = {path.stem.removeprefix("alive_") for path in dead}
        for kind in ADDED_UP:
            _archive(where, kind, [path for pid in pids if (path := where / f"{kind}_{pid}.db").exists()])
        for pid in pids:
            for path in where.glob(f"gauge_*_{pid}.db"):
                path.unlink(missing_ok=True)
        for path in dead:
            path.unlink(missing_ok=True)
        return len(dead)


def _gripped(path: Path, held: contextlib.ExitStack) -> bool:
    """Whether it could be locked: then it is a dead process' and is ours until `held` ends."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    held.callback(os.close, descriptor)
    return True


def _archive(where: Path, kind: str, files: list[Path]) -> None:
    """The archive and `files` become the new archive. Broken off in the middle, it loses counts rather than counting twice."""
    if not files:
        return
    total: dict[str, float] = defaultdict(float)
    archive, new = where / f"{kind}_{_ARCHIVE}.db", where / f"{kind}_{_ARCHIVE}.new"
    for path in (archive, *files):
        with contextlib.suppress(FileNotFoundError, struct.error, RuntimeError):  # none yet; killed while it was made
            for key, value, _, _ in _MmapedDict.read_all_values_from_file(str(path)):
                total[key] += value
    new.unlink(missing_ok=True)
    written = _MmapedDict(str(new))
    for key, value in total.items():
        written.write_value(key, value, 0.0)
    written.close()
    for path in files:
        path.unlink(missing_ok=True)
    new.replace(archive)
