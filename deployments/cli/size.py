"""`strata size`: how large an installation has to be, from the figures that were measured."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table

from deployments.sizing import Basis, Demand, Figures, Size, Tier, size
from memory.errors import ConfigError

FIGURES = Path(__file__).resolve().parents[1] / "sizing_figures.yaml"


def command(
    tenants: Annotated[int, typer.Option(help="Product teams.")],
    users_per_tenant: Annotated[int, typer.Option()],
    entries_per_user: Annotated[int, typer.Option(help="Memories of one user.")],
    turns_per_second: Annotated[float, typer.Option(help="Of the busiest minutes, as all rates here.")],
    contexts_per_second: Annotated[float, typer.Option()],
    searches_per_second: Annotated[float | None, typer.Option()] = None,
    tier: Annotated[Tier, typer.Option()] = Tier.PRODUCTION,
    kept_share: Annotated[float | None, typer.Option(help="Turns from which an entry is kept (0.2).")] = None,
    tokens_per_entry: Annotated[int | None, typer.Option(help="24: a long sentence.")] = None,
    turns_per_session: Annotated[int | None, typer.Option(help="20.")] = None,
    session_s: Annotated[float | None, typer.Option(help="From its first turn to its last (600).")] = None,
    session_ttl_s: Annotated[float | None, typer.Option(help="The policy's session.ttl_seconds (1800).")] = None,
    utilisation: Annotated[float | None, typer.Option(help="Of a core at the busiest (0.6).")] = None,
    spare: Annotated[int | None, typer.Option(help="Replicas of each kind that may be away (1).")] = None,
    days: Annotated[int | None, typer.Option(help="How long the audit of reads is kept (30).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as a document.")] = False,
) -> None:
    """Replicas, cores, memory and stores for a demand, from measured figures; says what is extrapolated."""
    asked = {name: value for name, value in locals().items() if name != "as_json" and value is not None}
    raise typer.Exit(run(asked, as_json, Console()))


def read_figures(path: Path = FIGURES) -> Figures:
    """ConfigError where the file is not what benchmarks.capacity writes."""
    try:
        return Figures(**yaml.safe_load(path.read_text("utf-8")))
    except (OSError, TypeError, yaml.YAMLError):
        fix = "cannot be read; make it with `python -m benchmarks.capacity --write`"
        raise ConfigError(str(path), fix) from None


def run(options: dict[str, Any], as_json: bool, console: Console) -> int:
    try:
        demand = Demand(**options)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ConfigError(f"--{str(first['loc'][0]).replace('_', '-')}", str(first["msg"])) from None
    figures = read_figures()
    found = size(demand, figures)
    if as_json:
        document = {"demand": demand.model_dump(mode="json"), **asdict(found)}
        document |= {"cores": round(found.cores, 2), "memory_mb": found.memory_mb, "measured": dict(figures.measured)}
        console.print_json(json.dumps(document))
    else:
        show(demand, found, figures, console)
    return 0


def show(demand: Demand, found: Size, figures: Figures, console: Console) -> None:
    """Two tables; what was not measured is marked."""
    told = f"{demand.tenants:,} tenants, {demand.entries:,} entries, {demand.turns_per_second:g} turns/s, "
    console.print(f"{told}{demand.contexts_per_second:g} contexts/s, {demand.tier} tier", highlight=False)
    headroom = f"at most {demand.utilisation:.0%} of a core in use"
    headroom += f", {demand.spare} spare of each" if demand.tier == "production" else ""
    table = Table(
        "deployment", "replicas", "cores in use", "cores each", "MB each", "", title=f"Processes ({headroom})"
    )
    for each in (*found.deployments, *found.nodes):
        sizes = (str(each.replicas), f"{each.busy:.2f}", f"{each.cores:.2f}", str(each.memory_mb))
        table.add_row(each.name, *sizes, _mark(each.basis))
    table.add_section()
    table.add_row("together", "", "", f"{found.cores:.2f}", f"{found.memory_mb:,}", "")
    console.print(table)
    table = Table("store", "size", "", "from", title="Stores (one copy of each)")
    for line in found.stores:
        table.add_row(line.what, f"{line.amount:,.2f} {line.unit}", _mark(line.basis), line.why)
    console.print(table)
    reasons = {each.why for each in found.deployments if each.basis is Basis.EXTRAPOLATED}
    for why in sorted(reasons):
        console.print(f"~ of processes: {why}", highlight=False)
    for note in found.notes:
        console.print(f"! {note}", highlight=False)
    for told in sorted(set(figures.measured.values())):
        groups = sorted(group for group, where in figures.measured.items() if where == told)
        console.print(f"Measured {told}: {', '.join(groups)}", highlight=False)
    console.print(
        "~ extrapolated; without it: measured in that range. Measure your own: docs/capacity.md", highlight=False
    )


def _mark(basis: Basis) -> str:
    return "~" if basis is Basis.EXTRAPOLATED else ""
