"""A Redis of one's own: one server, for itself or as part of something larger."""

import contextlib

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.servers.packages import program
from tests.servers.server import Server


class Redis(Server):
    """Kept in an append-only file. What it answered is with the kernel, so that it outlives a kill."""

    def __init__(self, *more: str) -> None:
        """`more`: further settings, as its command line takes them."""
        super().__init__()
        self._more = more

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def command(self) -> list[str]:
        settings = {
            "port": self.port,
            "bind": "127.0.0.1",
            "dir": self.folder,
            "save": "",
            "appendonly": "yes",
            "appendfsync": "no",
            "maxmemory-policy": "noeviction",
            "repl-diskless-sync-delay": 0,
        }
        given = [argument for name, value in settings.items() for argument in (f"--{name}", str(value))]
        return [program("redis-server"), *given, *self._more]

    def answers(self) -> bool:
        with contextlib.suppress(redis.RedisError, OSError), self.client() as client:
            return client.info("server")["process_id"] == self.pid and not client.info("persistence")["loading"]
        return False

    def client(self) -> redis.Redis:
        """A plain client, for what a test wants to do or see on the server itself."""
        return redis.Redis(
            port=self.port, socket_timeout=5, socket_connect_timeout=5, retry=Retry(NoBackoff(), 0), protocol=2
        )
