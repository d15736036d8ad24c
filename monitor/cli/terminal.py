"""Tables, one line of progress and progress bars on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from textwrap import wrap

from rich import progress
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from monitor.cli.row_layout import Form, Laid

_GAP = 2
_NARROWEST = 30  # a sentence in fewer columns stands below its row instead
_INDENT = 4
_STYLES = {
    "red": ("critical", "failed", "failing", "firing", "lost", "unreachable", "late", "missed"),
    "yellow": ("warning", "canceled", "degraded", "pending", "unknown", "disabled", "acknowledged"),
    "green": ("ok", "succeeded", "reachable", "resolved", "active", "healthy"),
    "cyan": ("running", "info"),
}
_STYLE_OF = {word: style for style, states in _STYLES.items() for word in states}


def print_table(laid: Laid) -> None:
    """Print rows in their columns, whatever the width; only sentences are wrapped into it."""
    console = Console()
    *before, last = range(len(laid.columns))
    is_text = laid.columns[last].form is Form.TEXT
    fixed = before if is_text else [*before, last]
    widths = [
        max(cell_len(text) for text in (laid.columns[i].title, *(row[i] for row in laid.cells)))
        for i in range(len(laid.columns))
    ]
    begin = sum(widths[index] + _GAP for index in fixed)
    is_beside = console.width - begin >= _NARROWEST
    titles = fixed if is_text and not is_beside else [*before, last]
    _print(console, _line([laid.columns[i].title for i in titles], widths, "bold"))
    for row in laid.cells:
        line = Text()
        for index in fixed:
            line.append_text(_cell(row[index], laid.columns[index].form, widths[index]))
        if is_text:
            indent = begin if is_beside else _INDENT
            width = max(console.width - indent, 1)
            # A path or URL in it stays whole.
            sentence = wrap(row[last], width, break_long_words=False, break_on_hyphens=False)
            line.append("" if is_beside else "\n" + " " * indent)
            line.append(("\n" + " " * indent).join(sentence))
        _print(console, line)
    if laid.common:
        shared = ", ".join(f"{title} {value}" for title, value in laid.common)
        _print(console, Text(f"all: {shared}", "dim"))


def print_state(word: str, sentence: str) -> None:
    """Print a sentence in the colour of a state."""
    _print(Console(), Text(sentence, _STYLE_OF.get(word, "")))


def coloured(word: str, text: str) -> str:
    """Return a text in the colour of a state, as this terminal shows it."""
    console = Console()
    with console.capture() as captured:
        console.print(Text(text, _STYLE_OF.get(word, "")), soft_wrap=True, end="")
    return captured.get()


def _cell(text: str, form: Form, width: int) -> Text:
    style = _STYLE_OF.get(text, "") if form is Form.STATE else ""
    # As text, so that a name in square brackets is not taken for a style.
    shown = Text(text, style)
    shown.append(" " * (width - cell_len(text) + _GAP), "")
    return shown


def _line(texts: list[str], widths: list[int], style: str) -> Text:
    padded = (text.ljust(width + _GAP) for text, width in zip(texts, widths, strict=False))
    return Text("".join(padded).rstrip(), style)


def _print(console: Console, text: Text) -> None:
    text.rstrip()
    console.print(text, soft_wrap=True, highlight=False)


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
