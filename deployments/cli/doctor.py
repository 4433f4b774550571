"""`strata doctor`: each part of Strata in a line, and what to do where one is not well."""

import asyncio
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from deployments.doctor import Finding, Level, examine
from deployments.serve_file import read_serve_file

_COLOURS = {Level.OK: "green", Level.WARN: "yellow", Level.BAD: "red"}


def run(config: Path, full: bool, console: Console) -> int:
    """1 where anything is bad."""
    file = read_serve_file(config)
    with console.status("Looking ...") as status:
        found = asyncio.run(examine(file, full, lambda part: status.update(f"Looking at {part} ...")))
    console.print(table(found))
    counts = {level: sum(1 for one in found if one.level is level) for level in Level}
    console.print(f"{counts[Level.OK]} ok, {counts[Level.WARN]} to look at, {counts[Level.BAD]} bad.", highlight=False)
    return 1 if counts[Level.BAD] else 0


def table(found: list[Finding]) -> Table:
    rows = Table("", "part", "found", "what to do")
    for one in found:
        rows.add_row(Text(one.level.value, style=_COLOURS[one.level]), Text(one.part), Text(one.said), Text(one.fix))
    return rows
