"""`strata status`: what runs, how much it does and how fast, what waits, and whether each part answers."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from deployments.cli.figures import Between, Scrape

TIMEOUT_S = 5.0
HIDDEN = frozenset({"/metrics", "/readyz", "/healthz", "unmatched"})
"""Machines ask for these, we among them."""
STORES = ("sessions", "records", "index", "embedder")
BUSY_S = 60.0
"""An index that is behind by more is worth a colour."""


class NotStrata(Exception):
    """Something answers, but not as Strata does."""


@dataclass(frozen=True)
class Seen:
    """One look. `state` is ok, degraded, unready or starting."""

    state: str
    stores: Mapping[str, str]
    scrape: Scrape


def status(url: str, console: Console, interval_s: float = 2.0, once: bool = False) -> int:
    """0 where the service is ready, 1 where it is not. On a terminal it goes on until Ctrl-C, unless it is asked for one look."""
    once = once or not console.is_terminal
    try:
        with httpx.Client(base_url=url, timeout=TIMEOUT_S, trust_env=False) as client:
            before = look(client)
            time.sleep(min(interval_s, 1.0))
            now = look(client)
            if once:
                console.print(shown(url, before, now))
                return _code(now)
            with Live(shown(url, before, now), console=console, auto_refresh=False, screen=False) as live:
                return _watch(client, url, now, live, interval_s)
    except (httpx.HTTPError, httpx.InvalidURL):
        console.print(f"[red]Nothing answers at {url}.[/red] Start it with `strata up`.", highlight=False)
    except NotStrata:
        console.print(f"[red]What answers at {url} is not Strata[/red], or not ready to say so yet.", highlight=False)
    return 1


def _watch(client: httpx.Client, url: str, before: Seen, live: Live, interval_s: float) -> int:
    """Until Ctrl-C. A service that goes away is shown as away, and looked for again."""
    try:
        while True:
            time.sleep(interval_s)
            try:
                now = look(client)
            except (httpx.HTTPError, NotStrata):
                live.update(Text(f"Nothing answers at {url} any more; looking again ...", style="red"), refresh=True)
                continue
            live.update(shown(url, before, now), refresh=True)
            before = now
    except KeyboardInterrupt:
        return _code(before)


def look(client: httpx.Client) -> Seen:
    """httpx.HTTPError where nothing answers, NotStrata where something else does."""
    ready, metrics = client.get("/readyz"), client.get("/metrics")
    try:
        told = ready.json()
        return Seen(told["status"], dict(told["stores"]), Scrape.of(metrics.raise_for_status().text, time.monotonic()))
    except (ValueError, KeyError, TypeError, httpx.HTTPStatusError):
        raise NotStrata from None


def _code(seen: Seen) -> int:
    return 0 if seen.state in ("ok", "degraded") else 1


def shown(url: str, before: Seen, now: Seen) -> Group:
    """`before` a while ago, `now`: rates are of the time between."""
    between = Between(before.scrape, now.scrape)
    return Group(
        _headline(url, now),
        _replicas(between),
        _requests(between),
        _queues(between),
        _stores(now, between),
        _behind(now),
    )


def _headline(url: str, now: Seen) -> Text:
    colour = {"ok": "green", "degraded": "yellow"}.get(now.state, "red")
    version = next(iter(now.scrape.by("strata_build_info", "version")), "")
    word = "alive" if now.state in ("ok", "degraded") else now.state
    return Text.assemble(
        ("Strata ", "bold"), f"{version} at {url}: ", (word, colour), "" if now.state == "ok" else f" ({now.state})"
    )


def _table(title: str, first: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", min_width=72)
    table.add_column(first, min_width=16, no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _replicas(between: Between) -> Table:
    table = _table("Replicas", "deployment", "replicas", "CPU", "memory")
    resident = between.second.by("strata_process_resident_bytes", "deployment")
    cpu = between.rate("strata_process_cpu_seconds_total", "deployment")
    for name, count in sorted(between.second.by("strata_replica_up", "deployment").items()):
        table.add_row(
            name,
            f"{count:.0f}" if count else "[red]0[/red]",
            f"{cpu.get(name, 0.0):.2f}",
            f"{resident.get(name, 0.0) / 2**20:.0f} MiB",
        )
    return table


def _requests(between: Between) -> Table:
    table = _table("Requests", "route", "per second", "failed", "p50", "p95", "p99")
    rates = between.rate("strata_http_requests_total", "route")
    failed = between.grown("strata_http_requests_total", "route", status="5xx")
    for route, rate in sorted(rates.items(), key=lambda pair: (-pair[1], pair[0])):
        if route in HIDDEN:
            continue
        found = between.quantiles("strata_http_request_seconds", (0.5, 0.95, 0.99), route=route)
        bad = failed.get(route, 0.0)
        table.add_row(
            route, f"{rate:.1f}", f"[red]{bad:.0f}[/red]" if bad else "0", *_times(found.values, found.meanwhile)
        )
    return table


def _queues(between: Between) -> Table:
    table = _table("Models", "queue", "texts wait", "tokens wait", "wait p95", "tokens/s", "turned away")
    tokens = between.second.by("strata_queue_tokens", "model")
    served = between.rate("strata_batch_tokens_sum", "model")
    refused = between.grown("strata_queue_refused_total", "model", reason="overloaded")
    for model, items in sorted(between.second.by("strata_queue_items", "model").items()):
        wait = between.quantiles("strata_queue_wait_seconds", (0.95,), model=model)
        away = refused.get(model, 0.0)
        table.add_row(
            model,
            f"{items:.0f}",
            f"{tokens.get(model, 0.0):.0f}",
            *_times(wait.values, wait.meanwhile),
            f"{served.get(model, 0.0):.0f}",
            f"[red]{away:.0f}[/red]" if away else "0",
        )
    return table


def _stores(now: Seen, between: Between) -> Table:
    table = _table("Stores", "part", "state", "calls/s", "p95", "failed")
    rates = between.rate("strata_store_seconds_count", "store")
    failed = between.grown("strata_store_errors_total", "store")
    for part in (*STORES, *sorted(now.stores.keys() - set(STORES))):
        state = now.stores.get(part, "unknown")
        found = between.quantiles("strata_store_seconds", (0.95,), store=part)
        bad = failed.get(part, 0.0)
        table.add_row(
            part,
            f"[green]{state}[/green]" if state == "ok" else f"[red]{state}[/red]",
            f"{rates[part]:.1f}" if part in rates else "",
            *_times(found.values, found.meanwhile),
            f"[red]{bad:.0f}[/red]" if bad else "0",
        )
    return table


def _behind(now: Seen) -> Text:
    entries, age = now.scrape.total("strata_index_backlog"), now.scrape.total("strata_index_backlog_age_seconds")
    pending = now.scrape.total("strata_erasures_pending")
    late: dict[str, Any] = {"style": "yellow"} if age > BUSY_S else {}
    return Text(f"Backlog: {entries:.0f} entries, the oldest for {age:.0f} s; erasures pending: {pending:.0f}", **late)


def _times(values: tuple[float | None, ...], meanwhile: bool) -> list[str]:
    """In milliseconds; dim where they are of all time, because nothing happened between the two looks."""
    told = ["" if value is None else f"{value * 1000:.1f} ms" for value in values]
    return told if meanwhile else [f"[dim]{one}[/dim]" if one else "" for one in told]
