"""`python -m deployments.telemetry.exporter --port 9108`: what the replicas of one pod have counted, for Prometheus.

It runs beside Ray in a container of its own, over the folder that PROMETHEUS_MULTIPROC_DIR names and both share: a replica that is busy,
hangs or is gone keeps nobody from reading what it counted. `/metrics`, and `/healthz` for probes.
"""

import signal
import sys

if __name__ == "__main__":
    # The first process of a container is deaf to every signal that it does not heed, and the imports below take a second.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))

import argparse
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from deployments.telemetry import processes
from deployments.telemetry.exposition import CONTENT_TYPE, exposition

AT_ONCE = 4
"""Scrapes that are answered at a time; further ones are told to come back."""
TIMEOUT_S = 10.0


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "strata", ""
    timeout = TIMEOUT_S
    _room = threading.BoundedSemaphore(AT_ONCE)

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/healthz":
            self._send(200, b"ok\n")
        elif path != "/metrics":
            self._send(404, b"not found\n")
        elif not self._room.acquire(blocking=False):
            self._send(503, b"busy\n")
        else:
            try:
                self._send(200, exposition(), CONTENT_TYPE)
            except OSError:
                self._send(503, b"the folder cannot be read\n")
            finally:
                self._room.release()

    def _send(self, status: int, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")  # a scraper that holds on keeps no thread
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Scrapes are no news."""


def serve(host: str, port: int) -> ThreadingHTTPServer:
    """Bound and ready; `serve_forever` answers."""
    server = ThreadingHTTPServer((host, port), _Handler)
    server.daemon_threads = True
    return server


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m deployments.telemetry.exporter", description=__doc__)
    parser.add_argument("--port", type=int, default=9108)
    parser.add_argument("--host", default="0.0.0.0", help="the pod's addresses by default")  # noqa: S104 - it is scraped
    chosen = parser.parse_args(arguments)
    where = processes.folder()
    if where is None:
        print(f"{processes.ENVIRONMENT} is not set: name the folder that the replicas count in", file=sys.stderr)
        return 2
    where.mkdir(parents=True, exist_ok=True)
    server = serve(chosen.host, chosen.port)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
