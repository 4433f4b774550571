"""The one table of `make bench`: ours, what it is held against, the ratio, the goal. Every speed benchmark gives such rows."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Row:
    """`ours` and `theirs` in `unit`, measured in the same run. `ratio` is ours / theirs; `goal` bounds it from the side that `better`
    names. A row without `theirs` or without `goal` is a figure alone."""

    what: str
    ours: float
    unit: str
    against: str = ""
    theirs: float | None = None
    goal: float | None = None
    better: Literal["higher", "lower"] = "higher"

    @property
    def ratio(self) -> float | None:
        return None if not self.theirs else self.ours / self.theirs

    @property
    def met(self) -> bool | None:
        """None where there is nothing to meet."""
        if self.ratio is None or self.goal is None:
            return None
        return self.ratio >= self.goal if self.better == "higher" else self.ratio <= self.goal


def table(rows: Iterable[Row], title: str) -> Table:
    shown = Table("what", "ours", "against", "theirs", "ratio", "goal", title=title)
    for row in rows:
        sign = ">=" if row.better == "higher" else "<="
        colour = {True: "green", False: "red", None: ""}[row.met]
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        shown.add_row(
            row.what,
            f"{row.ours:.4g} {row.unit}",
            row.against,
            "" if row.theirs is None else f"{row.theirs:.4g}",
            f"[{colour}]{ratio}[/{colour}]" if colour else ratio,
            "" if row.goal is None else f"{sign} {row.goal:g}",
        )
    return shown


def tell(rows: Sequence[Row], title: str, path: Path | None = None) -> None:
    """Print the rows and, where a path is given, keep them as JSON."""
    Console().print(table(rows, title))
    if path is not None:
        path.write_text(json.dumps([asdict(row) for row in rows], indent=1, ensure_ascii=False), "utf-8")


def read_rows(path: Path) -> list[Row]:
    return [Row(**row) for row in json.loads(path.read_text("utf-8"))]
