"""Tables and lines in colours on a terminal."""

from __future__ import annotations

from textwrap import wrap

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from monitor.cli.row_layout import Form, Laid, caption, without
from monitor.model.words import NOTHING

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
    """Print rows in their columns. Sentences are wrapped; columns that may give way to the rest."""
    console = Console()
    laid, left_out = _fitted(laid, console.width)
    *before, last = range(len(laid.columns))
    is_text = laid.columns[last].form is Form.TEXT
    fixed = before if is_text else [*before, last]
    widths = _widths(laid)
    begin = sum(widths[index] + _GAP for index in fixed)
    is_beside = console.width - begin >= _NARROWEST
    titles = fixed if is_text and not is_beside else [*before, last]
    _print(console, _line([laid.columns[i].title for i in titles], widths, "bold"))
    indent = begin if is_beside else _INDENT
    for row in laid.cells:
        line = Text()
        for index in fixed:
            line.append_text(_cell(row[index], laid.columns[index].form, widths[index]))
        if is_text and row[last] != NOTHING:
            if not is_beside:
                line.rstrip()
                line.append("\n" + " " * indent)
            line.append(("\n" + " " * indent).join(_wrapped(row[last], console.width - indent)))
        _print(console, line)
    if laid.common:
        _print(console, Text(caption(laid), "dim"))
    if left_out:
        names = ", ".join(reversed(left_out))
        _print(console, Text(f"too narrow for: {names}; --output wide has all", "dim"))


def _fitted(laid: Laid, width: int) -> tuple[Laid, list[str]]:
    """Leave columns out, the last first, until the rest fits; return their titles too."""
    left_out: list[str] = []
    while True:
        fixed = [
            size + _GAP
            for column, size in zip(laid.columns, _widths(laid), strict=True)
            if column.form is not Form.TEXT
        ]
        giving = [index for index, column in enumerate(laid.columns) if column.gives_way]
        if sum(fixed) - _GAP <= width or not giving:
            return laid, left_out
        left_out.append(laid.columns[giving[-1]].title)
        laid = without(laid, giving[-1])


def _widths(laid: Laid) -> list[int]:
    return [
        max(cell_len(text) for text in (column.title, *(row[index] for row in laid.cells)))
        for index, column in enumerate(laid.columns)
    ]


def _wrapped(sentence: str, width: int) -> list[str]:
    # A path or URL in it stays whole.
    return wrap(sentence, max(width, 1), break_long_words=False, break_on_hyphens=False)


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
