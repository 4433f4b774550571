"""`strata status`: what runs, and whether each part answers."""

import httpx
from rich.console import Console
from rich.table import Table


def status(url: str, console: Console) -> int:
    """0 where the service is ready, 1 where it is not."""
    try:
        with httpx.Client(base_url=url, timeout=5.0, trust_env=False) as client:
            alive = client.get("/healthz")
            ready = client.get("/readyz")
    except httpx.HTTPError:
        console.print(f"[red]Nothing answers at {url}.[/red] Start it with `strata up`.", highlight=False)
        return 1
    table = Table("part", "state")
    table.add_row("service", "[green]alive[/green]" if alive.status_code == 200 else f"[red]{alive.status_code}[/red]")
    for part, state in sorted(ready.json()["stores"].items()):
        table.add_row(part, f"[green]{state}[/green]" if state == "ok" else f"[red]{state}[/red]")
    console.print(table)
    return 0 if ready.status_code == 200 else 1
