"""The tests' own servers: what was acknowledged outlives a kill, and nothing outlives the test run."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
import redis

from tests.servers import MariaDb, Postgres, Redis
from tests.servers.guardian import started_at


@pytest.fixture(params=[Redis, MariaDb, Postgres])
def server(request):
    with request.param() as server:
        yield server


def put(server, n):
    if isinstance(server, Redis):
        with server.client() as client:
            client.rpush("k", n)
    else:
        server.sql(f"CREATE TABLE IF NOT EXISTS k (n INT); INSERT INTO k VALUES ({n})")


def held(server):
    if isinstance(server, Redis):
        with server.client() as client:
            return [int(n) for n in client.lrange("k", 0, -1)]
    return [int(line) for line in server.sql("SELECT n FROM k ORDER BY n").split() if line.isdigit()]


def test_what_was_acknowledged_outlives_a_kill_and_a_stop(server):
    url = server.url
    put(server, 1)
    server.kill()
    assert not server.running
    server.start()
    put(server, 2)
    server.stop()
    server.start()
    assert server.url == url and held(server) == [1, 2]


def test_a_paused_server_answers_nothing_until_it_is_resumed():
    with Redis() as server, server.client() as client:
        server.pause()
        with pytest.raises(redis.TimeoutError):
            client.ping()
        server.resume()
        assert client.ping()


KILLED = """
import os, signal
from tests.servers import Postgres, Redis
servers = [Redis(), Postgres()]
for server in servers:
    server.start()
servers[0].pause()
print(*[pid for server in servers for pid in server.family()], flush=True)
print(*[server.folder for server in servers], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_leaves_neither_processes_nor_files():
    run = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, timeout=200)
    pids, folders = run.stdout.splitlines()
    assert len(pids.split()) > 3 and len(folders.split()) == 2
    until = time.monotonic() + 60
    while time.monotonic() < until:
        alive = [pid for pid in pids.split() if started_at(int(pid)) is not None]
        left = [folder for folder in folders.split() if Path(folder).exists()]
        if not alive and not left:
            break
        time.sleep(0.05)
    assert (alive, left) == ([], [])
