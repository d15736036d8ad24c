"""Tables and progress bars on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich import progress
from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows, fitted to the width of the terminal."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        # As text, so that a name in square brackets is not taken for a style.
        table.add_row(*[Text(cell) for cell in row])
    Console().print(table)


@contextmanager
def progress_bar(name: str, *, unit: str) -> Iterator[Callable[[int, int | None], None]]:
    """Show on stderr how far ``name`` is; yields what takes the progress and its end, if known."""
    done = (
        (progress.DownloadColumn(), progress.TransferSpeedColumn())
        if unit == "bytes"
        else (progress.TextColumn("{task.completed} rows"),)
    )
    columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), *done)
    with progress.Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(name.replace("[", r"\["), total=None)
        yield lambda so_far, whole: bar.update(task, completed=so_far, total=whole)
