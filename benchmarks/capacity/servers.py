"""A server's own process, where it runs on this machine: what it uses while we ask it."""

from urllib.parse import urlsplit

import psutil

RECORDS = "records server"
INDEX = "index server"


def server_process(url: str) -> psutil.Process | None:
    """The process that listens on the URL's port here; None for a file, a server elsewhere, or where it cannot be seen."""
    port = urlsplit(url).port
    if port is None:
        return None
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
                return psutil.Process(connection.pid)
    except psutil.Error:
        pass
    return None


def cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
