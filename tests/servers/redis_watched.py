"""A Redis under Sentinel: a master, a replica, and three sentinels that put the replica in its place when it dies."""

import contextlib
import time

import redis

from tests.servers.packages import program
from tests.servers.redis_node import Redis
from tests.servers.server import Server

SERVICE = "strata"


class WatchedRedis(Server):
    """`members[0]` is the first master, `members[1]` its replica; `master` is whoever it is now."""

    def __init__(self, sentinels: int = 3, down_after_ms: int = 3000) -> None:
        """`down_after_ms`: of silence, or so a sentinel takes a server for dead; a busy machine is silent now and then."""
        super().__init__()
        self.down_after_ms = down_after_ms
        self.members = [Redis(), Redis()]
        self.sentinels = [_Sentinel(self) for _ in range(sentinels)]

    @property
    def url(self) -> str:
        return "redis+sentinel://" + ",".join(f"127.0.0.1:{each.port}" for each in self.sentinels) + f"/{SERVICE}"

    @property
    def quorum(self) -> int:
        return len(self.sentinels) // 2 + 1

    @property
    def master(self) -> Redis:
        """As the sentinels see it."""
        with self.sentinels[0].client() as client:
            _, port = client.sentinel_get_master_addr_by_name(SERVICE)
        return next(member for member in self.members if member.port == int(port))

    def start(self, timeout_s: float = 120.0) -> None:
        until = time.monotonic() + timeout_s
        first = not self._ready_once
        for member in self.members:
            if not member.running:
                member.start(timeout_s)
        if first:
            with self.members[1].client() as client:
                client.execute_command("REPLICAOF", "127.0.0.1", self.members[0].port)
            # A sentinel asks the master for its replicas when it starts and then every ten seconds: there must be one by then.
            self._wait(self._attached, until)
        for sentinel in self.sentinels:
            if not sentinel.running:
                sentinel.start(timeout_s)
        self._wait(self.answers, until)
        self._ready_once = True

    def answers(self) -> bool:
        """Every sentinel knows the replica and enough of the others to act."""
        with contextlib.suppress(redis.RedisError, OSError):
            for sentinel in self.sentinels:
                with sentinel.client() as client:
                    seen = client.sentinel_master(SERVICE)
                    client.execute_command("SENTINEL", "CKQUORUM", SERVICE)
                if seen["num-slaves"] < 1 or seen["num-other-sentinels"] < len(self.sentinels) - 1:
                    return False
            return True
        return False

    def _attached(self) -> bool:
        with self.members[1].client() as client:
            return client.info("replication")["master_link_status"] == "up"

    def _wait(self, ready, until: float) -> None:
        while not ready():
            if time.monotonic() > until:
                raise RuntimeError("the watched Redis did not come together")
            time.sleep(0.05)

    @property
    def running(self) -> bool:
        return all(each.running for each in [*self.members, *self.sentinels])

    def family(self) -> list[int]:
        return [pid for each in [*self.members, *self.sentinels] for pid in each.family()]

    def stop(self, timeout_s: float = 60.0) -> None:
        for each in [*self.sentinels, *self.members]:
            each.stop(timeout_s)

    def kill(self) -> None:
        for each in [*self.sentinels, *self.members]:
            each.kill()

    def remove(self) -> None:
        for each in [*self.sentinels, *self.members]:
            each.remove()
        super().remove()


class _Sentinel(Redis):
    def __init__(self, watched: WatchedRedis) -> None:
        super().__init__()
        self._watched = watched

    def command(self) -> list[str]:
        config = self.folder / "sentinel.conf"
        if not self._ready_once:  # afterwards it is the sentinel's own, which writes into it what it learnt
            config.write_text(
                f"port {self.port}\n"
                "bind 127.0.0.1\n"
                f'dir "{self.folder}"\n'
                f"sentinel monitor {SERVICE} 127.0.0.1 {self._watched.members[0].port} {self._watched.quorum}\n"
                f"sentinel down-after-milliseconds {SERVICE} {self._watched.down_after_ms}\n"
                f"sentinel failover-timeout {SERVICE} 6000\n"
            )
        return [program("redis-server"), str(config), "--sentinel"]

    def answers(self) -> bool:
        with contextlib.suppress(redis.RedisError, OSError), self.client() as client:
            return client.info("server")["process_id"] == self.pid
        return False
