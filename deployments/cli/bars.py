"""A progress bar for work that tells its stage, how much is done, and of how much where that is known."""

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

Watch = Callable[[str, int, int], None]


@contextlib.contextmanager
def bar(console: Console, first: str) -> Iterator[Watch]:
    """`watch(stage, done, total)`; a total of 0 is not known."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task(first, total=None)

        def watch(stage: str, done: int, total: int) -> None:
            bars.update(task, description=stage, completed=done, total=total or None)

        yield watch
