"""A Redis Cluster of one's own: three masters that share the 16,384 slots."""

import itertools
import time

from tests.servers.redis_node import Redis
from tests.servers.server import Server, spare_port

SLOTS = 16_384


class RedisMasters(Server):
    """`nodes` are servers of their own: kill, pause and start one, or all of them by the methods here."""

    def __init__(self, masters: int = 3) -> None:
        super().__init__()
        self.nodes = [_Member() for _ in range(masters)]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def start(self, timeout_s: float = 120.0) -> None:
        until = time.monotonic() + timeout_s
        first = not self._ready_once
        for node in self.nodes:
            if not node.running:
                node.start(timeout_s)
        if first:
            self._join()
        while not self.answers():
            if time.monotonic() > until:
                raise RuntimeError("the cluster did not come together")
            time.sleep(0.05)
        self._ready_once = True

    def _join(self) -> None:
        bounds = [SLOTS * n // len(self.nodes) for n in range(len(self.nodes) + 1)]
        for epoch, (node, (low, high)) in enumerate(zip(self.nodes, itertools.pairwise(bounds), strict=True), 1):
            with node.client() as client:
                client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", epoch)
                client.execute_command("CLUSTER", "ADDSLOTSRANGE", low, high - 1)
        with self.nodes[0].client() as client:
            for node in self.nodes[1:]:
                client.execute_command("CLUSTER", "MEET", "127.0.0.1", node.port, node.bus)

    def answers(self) -> bool:
        """Every node sees every slot served by a node that it reaches."""
        for node in self.nodes:
            with node.client() as client:
                about = client.execute_command("CLUSTER", "INFO").decode()
            if "cluster_state:ok" not in about or f"cluster_size:{len(self.nodes)}" not in about:
                return False
        return True

    def node_of(self, key: str) -> Redis:
        """The master that holds a key's slot."""
        with self.nodes[0].client() as client:
            slot = client.execute_command("CLUSTER", "KEYSLOT", key)
            for low, high, (_, port, *_), *_ in client.execute_command("CLUSTER", "SLOTS"):
                if low <= slot <= high:
                    return next(node for node in self.nodes if node.port == port)
        raise LookupError(slot)

    @property
    def running(self) -> bool:
        return all(node.running for node in self.nodes)

    def family(self) -> list[int]:
        return [pid for node in self.nodes for pid in node.family()]

    def stop(self, timeout_s: float = 60.0) -> None:
        for node in self.nodes:
            node.stop(timeout_s)

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()

    def remove(self) -> None:
        for node in self.nodes:
            node.remove()
        super().remove()


class _Member(Redis):
    def __init__(self) -> None:
        super().__init__()
        self.bus = spare_port()

    def command(self) -> list[str]:
        mine = ["--cluster-enabled", "yes", "--cluster-port", str(self.bus), "--cluster-node-timeout", "15000"]
        return [*super().command(), *mine]
