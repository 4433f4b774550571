"""The bundled Valkey: started once, found again, never twice on the same data, stopped in order."""

import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from memory.errors import ConfigError
from storage.sessions import valkey_server
from storage.sessions.valkey_server import ensure_running, running, stop
from tests.servers.server import spare_port


def client(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, protocol=2)


def pid_of(url: str) -> int:
    with client(url) as c:
        return c.info("server")["process_id"]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_it_is_a_real_server_kept_on_disk_on_a_private_socket(home):
    url = ensure_running(home)
    assert url == f"unix://{home}/run/valkey.sock"
    with client(url) as c:
        settings = c.config_get("*")
        assert settings["appendonly"] == "yes" and settings["appendfsync"] == "everysec"
        assert settings["maxmemory-policy"] == "noeviction"
        assert settings["port"] == "0"
        assert settings["dir"] == str(home / "data" / "sessions")
        assert "valkey" in c.info("server").get("server_name", "")
    assert (home / "run" / "valkey.sock").stat().st_mode & 0o077 == 0
    for private in (
        home / "run",
        home / "data" / "sessions",
        home / "run" / "valkey.url",
        home / "run" / "valkey.conf",
    ):
        assert private.stat().st_mode & 0o077 == 0, private


def test_a_second_start_finds_the_first(home):
    url = ensure_running(home)
    pid = pid_of(url)
    assert ensure_running(home) == url == running(home)
    assert pid_of(url) == pid


def test_many_starts_at_once_make_one_server(home):
    with ThreadPoolExecutor(8) as pool:
        urls = list(pool.map(lambda _: ensure_running(home), range(8)))
    assert len(set(urls)) == 1
    held = [
        p
        for p in Path("/proc").glob("[0-9]*/cmdline")
        if str(home).encode() in _read(p) and b"valkey-server" in _read(p)
    ]
    assert len(held) == 1


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


START = """
import sys, time
from pathlib import Path
from storage.sessions.valkey_server import ensure_running
print(ensure_running(Path(sys.argv[1])), flush=True)
time.sleep(600)
"""


def test_a_killed_parent_leaves_it_to_the_next_start(home):
    parent = subprocess.Popen([sys.executable, "-c", START, str(home)], stdout=subprocess.PIPE, text=True)
    url = parent.stdout.readline().strip()
    pid = pid_of(url)
    with client(url) as c:
        c.set("k", "written before")
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert ensure_running(home) == url
    assert pid_of(url) == pid
    with client(url) as c:
        assert c.get("k") == b"written before"
    assert stop(home)
    assert not alive(pid)


def test_an_interrupt_of_the_parents_group_does_not_reach_it(home):
    """Ctrl-C ends the parent, which then stops the server in order."""
    parent = subprocess.Popen(
        [sys.executable, "-c", START, str(home)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a suite in the background has it ignored
    )
    url = parent.stdout.readline().strip()
    os.killpg(parent.pid, signal.SIGINT)
    parent.wait(30)
    parent.stdout.close()
    assert running(home) == url


def test_what_was_written_is_there_after_a_stop_and_a_start(home):
    url = ensure_running(home)
    with client(url) as c:
        c.set("k", "v")
    assert stop(home) is True
    assert not (home / "run" / "valkey.sock").exists()
    assert running(home) is None
    with client(ensure_running(home)) as c:
        assert c.get("k") == b"v"


def test_a_killed_server_leaves_a_stale_socket_that_is_cleaned(home):
    url = ensure_running(home)
    with client(url) as c:
        c.set("k", "v")
        c.execute_command("WAITAOF", 1, 0, 2000)  # on disk now, whatever comes
    pid = pid_of(url)
    os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + 60
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.01)
    assert (home / "run" / "valkey.sock").exists()
    assert running(home) is None
    with client(ensure_running(home)) as c:
        assert c.get("k") == b"v"
    assert pid_of(url) != pid


def test_a_server_that_hangs_is_never_joined_by_a_second_on_its_data(home):
    url = ensure_running(home)
    pid = pid_of(url)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(ConfigError) as error:
            ensure_running(home, timeout_s=0.5)
        assert "\n" not in str(error.value) and "does not answer" in str(error.value)
        with pytest.raises(ConfigError):
            stop(home)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert ensure_running(home) == url
    assert pid_of(url) == pid


def test_stop_kills_what_does_not_end_in_time(home, monkeypatch):
    url = ensure_running(home)
    pid = pid_of(url)
    real = redis.Redis.execute_command

    def deaf(self, *args, **options):  # a server that takes no notice of SHUTDOWN
        return None if args[0] == "SHUTDOWN" else real(self, *args, **options)

    monkeypatch.setattr(redis.Redis, "execute_command", deaf)
    assert stop(home, timeout_s=2) is True
    assert not alive(pid)


def test_stop_of_nothing_is_no_error(home):
    assert stop(home) is False
    assert stop(home / "never" / "made") is False


def test_a_long_path_falls_back_to_a_loopback_port_with_a_password(home):
    deep = home / ("d" * 60) / ("e" * 60)
    url = ensure_running(deep)
    try:
        assert url.startswith("redis://:") and "@127.0.0.1:" in url
        assert ensure_running(deep) == url
        with client(url) as c:
            assert c.ping()
        with (
            pytest.raises(redis.AuthenticationError),
            redis.Redis(port=int(url.rsplit(":", 1)[1][:-2]), retry=Retry(NoBackoff(), 0)) as stranger,
        ):
            stranger.get("k")
        password = url.split(":")[2].split("@")[0]
        assert password.encode() not in _read(Path(f"/proc/{pid_of(url)}/cmdline"))  # which anybody may read
    finally:
        assert stop(deep)


@pytest.mark.parametrize("name", ["with space", 'quo"te', "ünï 数据", "per%20cent", "has#hash", "back\\slash"])
def test_a_home_of_any_name(home, name):
    odd = home / name
    url = ensure_running(odd)
    try:
        with client(url) as c:
            assert c.config_get("dir")["dir"] == str(odd / "data" / "sessions")
    finally:
        assert stop(odd)


def test_a_port_that_is_taken_stops_the_start_with_one_line(home):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError) as error:
            ensure_running(home, port=port)
    assert str(port) in str(error.value) and "choose another" in str(error.value) and "\n" not in str(error.value)


def test_a_port_of_ones_own_choice(home):
    port = spare_port()
    url = ensure_running(home, port=port)
    assert f":{port}/" in url
    assert running(home) == url


def test_a_home_that_cannot_be_written_stops_the_start_with_one_line(home):
    (home / "file").write_text("no folder")
    for unwritable in (home / "file", home / "file" / "below", Path("/proc/strata")):
        with pytest.raises(ConfigError) as error:
            ensure_running(unwritable)
        assert "cannot be written" in str(error.value) and "STRATA_HOME" in str(error.value)
        assert "\n" not in str(error.value)


def test_a_damaged_data_file_stops_the_start_and_names_the_log(home):
    url = ensure_running(home)
    with client(url) as c:
        c.set("k", "v")
    stop(home)
    (manifest,) = (home / "data" / "sessions").rglob("*.manifest")
    manifest.write_text("nonsense\n")
    with pytest.raises(ConfigError) as error:
        ensure_running(home)
    assert "valkey.log" in str(error.value) and "\n" not in str(error.value)
    assert running(home) is None
    with valkey_server._opened(home / "data" / "sessions" / "lock") as lock:
        assert valkey_server._locked(lock)  # nobody is left behind
