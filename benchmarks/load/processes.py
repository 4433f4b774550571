"""What Strata's processes on this machine use, by kind. Whose a process is, its environment says: STRATA_HOME. (The session server writes
its title over that; it works in a folder of the home.)"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.load.figures import Memory

RAY = "ray system"
_REPLICA = "ServeReplica:"
_BY_NAME = (("haproxy", "HAProxy"), ("valkey", "sessions (Valkey)"), ("redis-server", "sessions (Redis)"))
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
    """Looks at the processes of one home. What a process had used when it ended is not forgotten, as far as it was seen."""

    home: Path
    _seen: dict[tuple[int, float], _Seen] = field(default_factory=dict)

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU, user's and system's, by kind since each process began."""
        for process in self._living():
            try:
                with process.oneshot():
                    key = (process.pid, process.create_time())
                    times = process.cpu_times()
                    title = " ".join((process.name(), *process.cmdline()))
            except psutil.Error:
                continue
            # a process takes its title when it has begun: the last one counts
            self._seen[key] = _Seen(kind_of(title), times.user + times.system)
        spent: dict[str, float] = {}
        for seen in self._seen.values():
            spent[seen.kind] = spent.get(seen.kind, 0.0) + seen.cpu
        return dict(sorted(spent.items()))

    def memory(self) -> dict[str, Memory]:
        """MB by kind, now."""
        found: dict[str, Memory] = {}
        for process in self._living():
            try:
                full = process.memory_full_info()
                kind = kind_of(" ".join((process.name(), *process.cmdline())))
            except psutil.Error:
                continue
            before = found.get(kind, Memory(0, 0.0, 0.0))
            found[kind] = Memory(
                before.processes + 1, before.resident + full.rss / 2**20, before.unique + full.uss / 2**20
            )
        return dict(sorted(found.items()))

    def _living(self) -> Iterable[psutil.Process]:
        own = psutil.Process()
        for process in psutil.process_iter():
            try:
                if process != own and (
                    process.environ().get("STRATA_HOME") == str(self.home)
                    or Path(process.cwd()).is_relative_to(self.home)
                ):
                    yield process
            except psutil.Error:
                continue


def spent(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """Seconds by kind between two looks."""
    return {kind: seconds - before.get(kind, 0.0) for kind, seconds in after.items()}
