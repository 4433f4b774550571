"""Real servers for tests: each of this run alone, on a spare loopback port or socket, its data in a folder that goes afterwards.

The fixtures are known to every test (tests/conftest.py). They are URLs of servers that the whole run shares: take a `tenant` or a
database of your own. A test that stops, kills or stalls a server makes one for itself:

    with Redis() as server:
        server.kill()
        server.start()

`with` starts it and removes it in the end; also a killed test run leaves neither processes nor files.
"""

from tests.servers.fixtures import (
    home,
    mariadb,
    mysql,
    postgres,
    redis_cluster,
    redis_sentinel,
    redis_server,
    tenant,
    valkey,
)
from tests.servers.mariadbd import MariaDb
from tests.servers.postgresql import Postgres
from tests.servers.prometheus import Prometheus
from tests.servers.redis_masters import RedisMasters
from tests.servers.redis_node import Redis
from tests.servers.redis_watched import WatchedRedis
from tests.servers.server import Server

__all__ = [
    "MariaDb",
    "Postgres",
    "Prometheus",
    "Redis",
    "RedisMasters",
    "Server",
    "WatchedRedis",
    "home",
    "mariadb",
    "mysql",
    "postgres",
    "redis_cluster",
    "redis_sentinel",
    "redis_server",
    "tenant",
    "valkey",
]
