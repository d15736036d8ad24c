"""A progress bar on a terminal's stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich import progress
from rich.console import Console


@contextmanager
def terminal_bar(name: str, *, unit: str) -> Iterator[Callable[[int, int | None], None]]:
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
