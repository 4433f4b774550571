"""A PostgreSQL of one's own."""

import contextlib
import secrets
import signal
import subprocess
import time

from tests.servers.guardian import started_at
from tests.servers.packages import program
from tests.servers.server import Server

# Commits reach the kernel, not the disk: they outlive a killed server, which is what tests do to it.
_SMALL_AND_FAST = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "200",
    "max_wal_size": "256MB",
    "dynamic_shared_memory_type": "mmap",  # files in the data folder, which goes: nothing is left in /dev/shm
    "autovacuum_naptime": "10min",
}


class Postgres(Server):
    """An empty database `strata`, whose user may make others."""

    accounts = ("postgres", "nobody")

    def __init__(self) -> None:
        super().__init__()
        self._password = secrets.token_hex(12)

    @property
    def url(self) -> str:
        return f"postgresql+asyncpg://strata:{self._password}@127.0.0.1:{self.port}/strata"

    def prepare(self) -> None:
        (self.folder / "password").write_text(self._password)
        self.run(
            program("initdb"),
            f"--pgdata={self.folder}/data",
            "--username=strata",
            "--auth=scram-sha-256",
            f"--pwfile={self.folder}/password",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
            "--no-instructions",
        )

    def command(self) -> list[str]:
        settings = [argument for name, value in _SMALL_AND_FAST.items() for argument in ("-c", f"{name}={value}")]
        return [
            program("postgres"),
            "-D",
            f"{self.folder}/data",
            "-p",
            str(self.port),
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            "unix_socket_directories=",
            *settings,
        ]

    def answers(self) -> bool:
        with contextlib.suppress(RuntimeError, subprocess.TimeoutExpired):
            self.sql("SELECT 1", database="postgres")
            return True
        return False

    def first_start(self) -> None:
        self.sql("CREATE DATABASE strata", database="postgres")

    def stop(self, timeout_s: float = 60.0) -> None:
        if self._process is not None and self.running:  # SIGTERM would wait for every client to leave
            self.resume()
            self._process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout_s)
        self.kill()

    def kill(self) -> None:
        family = self.family()
        super().kill()
        until = time.monotonic() + 20
        while _alive(family) and time.monotonic() < until:  # the next start refuses while one holds its memory
            time.sleep(0.02)

    def sql(self, text: str, database: str = "strata") -> str:
        """Run statements as the test's user, outside of a transaction."""
        address = (
            f"host=127.0.0.1 port={self.port} user=strata password={self._password} dbname={database} connect_timeout=5"
        )
        return self.run(program("psql"), "-X", "-q", "-A", "-t", "-d", address, "-c", text, timeout_s=30.0)


def _alive(pids: list[int]) -> bool:
    return any(started_at(pid) is not None for pid in pids)
