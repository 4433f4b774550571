"""`strata status`: figures from two looks at /metrics, and a clear word where nothing answers."""

import io
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import inf

import pytest
from rich.console import Console

from benchmarks.service import free_port
from deployments.cli.figures import Between, Scrape, quantile
from deployments.cli.look import status


@pytest.mark.parametrize(
    ("buckets", "wanted", "found"),
    [
        ([], 0.5, None),
        ([(1.0, 0), (inf, 0)], 0.5, None),
        ([(1.0, 10), (2.0, 10), (inf, 10)], 0.5, 0.5),
        ([(1.0, 10), (2.0, 20), (inf, 20)], 0.75, 1.5),
        ([(1.0, 10), (2.0, 20), (inf, 20)], 1.0, 2.0),
        ([(1.0, 0), (2.0, 20), (inf, 20)], 0.5, 1.5),
        ([(1.0, 10), (inf, 20)], 0.99, 1.0),  # beyond the last bound: told as the bound
        ([(1.0, 10), (2.0, 10), (4.0, 12), (inf, 12)], 0.99, pytest.approx(3.88)),
    ],
)
def test_a_quantile_is_what_prometheus_says(
    buckets: list[tuple[float, float]], wanted: float, found: float | None
) -> None:
    assert quantile(buckets, wanted) == found


def scrape(at: float, requests: int, failed: int, fast: int, slow: int) -> Scrape:
    text = f"""\
# TYPE strata_http_requests counter
strata_http_requests_total{{route="/v1/context",method="POST",status="2xx",tenant="a"}} {requests - 5}
strata_http_requests_total{{route="/v1/context",method="POST",status="2xx",tenant="b"}} 5
strata_http_requests_total{{route="/v1/context",method="POST",status="5xx",tenant="a"}} {failed}
# TYPE strata_http_request_seconds histogram
strata_http_request_seconds_bucket{{route="/v1/context",le="0.01"}} {fast}
strata_http_request_seconds_bucket{{route="/v1/context",le="0.1"}} {fast + slow}
strata_http_request_seconds_bucket{{route="/v1/context",le="+Inf"}} {fast + slow}
"""
    return Scrape.of(text, at)


def test_rates_and_quantiles_are_of_the_time_between() -> None:
    between = Between(scrape(100.0, 10, 0, 10, 0), scrape(102.0, 30, 4, 10, 24))
    assert between.rate("strata_http_requests_total", "route") == {"/v1/context": 12.0}
    assert between.grown("strata_http_requests_total", "route", status="5xx") == {"/v1/context": 4.0}
    found = between.quantiles("strata_http_request_seconds", (0.5,), route="/v1/context")
    assert found.meanwhile
    assert found.values == (pytest.approx(0.055),)  # the ten fast ones were before


def test_where_nothing_happened_quantiles_are_of_all_time() -> None:
    between = Between(scrape(100.0, 10, 0, 10, 0), scrape(102.0, 10, 0, 10, 0))
    found = between.quantiles("strata_http_request_seconds", (0.5,), route="/v1/context")
    assert (found.values, found.meanwhile) == ((pytest.approx(0.005),), False)
    assert between.quantiles("strata_http_request_seconds", (0.5,), route="/other").values == (None,)


def test_a_count_that_fell_began_anew() -> None:
    between = Between(scrape(100.0, 1000, 0, 10, 0), scrape(102.0, 20, 0, 10, 0))
    assert between.rate("strata_http_requests_total", "route") == {"/v1/context": 10.0}


@pytest.fixture
def stranger() -> Iterator[str]:
    """Another service on the port."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"<html>hello</html>"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def said(url: str) -> tuple[int, str]:
    out = io.StringIO()
    return status(url, Console(file=out, width=200), once=True), out.getvalue()


def test_nothing_answers() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert said(url) == (1, f"Nothing answers at {url}. Start it with `strata up`.\n")


def test_an_address_that_is_none() -> None:
    code, text = said("not an address")
    assert code == 1
    assert "Nothing answers" in text


def test_somebody_else_answers(stranger: str) -> None:
    code, text = said(stranger)
    assert code == 1
    assert "is not Strata" in text
