"""What Strata's processes on this machine use, by kind. Whose a process is, its environment says: STRATA_HOME. (The session server writes
its title over that; it works in a folder of the home.)"""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.load.figures import Memory

RAY = "ray system"
_REPLICA = "ServeReplica:"
SESSIONS = "session server"
_BY_NAME = (("haproxy", "HAProxy"), ("valkey", SESSIONS), ("redis-server", SESSIONS))
_DEPLOYMENTS = {
    "ContextAssembler": "assembler",
    "MemoryApi": "memory api",
    "Embedder": "embedder",
    "Reranker": "reranker",
    "Summarizer": "summarizer",
    "Curator": "curator",
}


def kind_of(title: str) -> str:
    """`title`: a process' name and command line. Replicas say of which deployment they are, and
    while they are at it which method they run; what else Ray runs is its system."""
    for word, kind in _BY_NAME:
        if word in title:
            return kind
    if _REPLICA in title:
        deployment = title.split(_REPLICA, 1)[1].split()[0].split(":")[-1].split(".")[0]
        return _DEPLOYMENTS.get(deployment, deployment)
    return RAY


@dataclass
class _Seen:
    kind: str
    cpu: float = 0.0


@dataclass
class Watch:
    """Looks at the processes of one home, and at `others` by their kind: servers that are not of the home. What a process had used when it
    ended is not forgotten, as far as it was seen."""

    home: Path
    others: dict[str, psutil.Process] = field(default_factory=dict)
    _seen: dict[tuple[int, float], _Seen] = field(default_factory=dict)

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU, user's and system's, by kind since each process began."""
        for process, kind in self._living():
            with contextlib.suppress(psutil.Error), process.oneshot():
                times = process.cpu_times()
                # a process takes its title when it has begun: the last one counts
                seen = _Seen(kind or kind_of(_title(process)), times.user + times.system)
                self._seen[process.pid, process.create_time()] = seen
        spent: dict[str, float] = {}
        for seen in self._seen.values():
            spent[seen.kind] = spent.get(seen.kind, 0.0) + seen.cpu
        return dict(sorted(spent.items()))

    def memory(self) -> dict[str, Memory]:
        """MB by kind, now."""
        found: dict[str, Memory] = {}
        for process, known in self._living():
            try:
                full = process.memory_full_info()
                kind = known or kind_of(_title(process))
            except psutil.Error:
                continue
            before = found.get(kind, Memory(0, 0.0, 0.0))
            found[kind] = Memory(
                before.processes + 1, before.resident + full.rss / 2**20, before.unique + full.uss / 2**20
            )
        return dict(sorted(found.items()))

    def _living(self) -> Iterable[tuple[psutil.Process, str | None]]:
        """With their kinds, where these are known already."""
        yield from ((process, kind) for kind, process in self.others.items())
        own = psutil.Process()
        for process in psutil.process_iter():
            try:
                if process != own and (
                    process.environ().get("STRATA_HOME") == str(self.home)
                    or Path(process.cwd()).is_relative_to(self.home)
                ):
                    yield process, None
            except psutil.Error:
                continue


def _title(process: psutil.Process) -> str:
    return " ".join((process.name(), *process.cmdline()))


def spent(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """Seconds by kind between two looks."""
    return {kind: seconds - before.get(kind, 0.0) for kind, seconds in after.items()}
