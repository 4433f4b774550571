"""A MariaDB of one's own."""

import contextlib
import secrets
import subprocess

from tests.servers.packages import program
from tests.servers.server import Server

# Commits reach the kernel, not the disk: they outlive a killed server, which is what tests do to it.
_SMALL_AND_FAST = """
innodb-flush-log-at-trx-commit=2
innodb-flush-method=nosync
innodb-doublewrite=0
innodb-buffer-pool-size=64M
innodb-log-file-size=16M
innodb-log-buffer-size=4M
key-buffer-size=1M
max-connections=200
performance-schema=OFF
"""


class MariaDb(Server):
    """An empty database `strata`, whose user may make others and grant."""

    accounts = ("mysql", "nobody")

    def __init__(self) -> None:
        super().__init__()
        self._password = secrets.token_hex(12)

    @property
    def url(self) -> str:
        return f"mysql+asyncmy://strata:{self._password}@127.0.0.1:{self.port}/strata?charset=utf8mb4"

    def prepare(self) -> None:
        (self.folder / "my.cnf").write_text(f"[mariadbd]\n{_SMALL_AND_FAST}")
        (self.folder / "init.sql").write_text(
            "CREATE DATABASE IF NOT EXISTS strata CHARACTER SET utf8mb4;\n"
            f"CREATE USER IF NOT EXISTS strata@'127.0.0.1' IDENTIFIED BY '{self._password}';\n"
            "GRANT ALL ON *.* TO strata@'127.0.0.1' WITH GRANT OPTION;\n"
        )
        self.run(
            program("mariadb-install-db"),
            f"--defaults-file={self.folder}/my.cnf",
            f"--datadir={self.folder}/data",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            "--skip-name-resolve",
        )

    def command(self) -> list[str]:
        return [
            program("mariadbd"),
            f"--defaults-file={self.folder}/my.cnf",
            f"--datadir={self.folder}/data",
            f"--init-file={self.folder}/init.sql",
            f"--socket={self.folder}/sock",
            f"--pid-file={self.folder}/pid",
            "--bind-address=127.0.0.1",
            f"--port={self.port}",
            "--skip-name-resolve",
        ]

    def answers(self) -> bool:
        with contextlib.suppress(RuntimeError, subprocess.TimeoutExpired):
            self.sql("SELECT 1")
            return True
        return False

    def sql(self, text: str) -> str:
        """Run statements as the test's user."""
        (self.folder / "client.cnf").write_text(f"[client]\nuser=strata\npassword={self._password}\n")
        return self.run(
            program("mariadb"),
            f"--defaults-file={self.folder}/client.cnf",
            "--host=127.0.0.1",
            f"--port={self.port}",
            "--protocol=tcp",
            "--connect-timeout=5",
            "strata",
            text=text,
            timeout_s=30.0,
        )
