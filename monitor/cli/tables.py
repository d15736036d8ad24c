"""Prints results on stdout: a table for people, plain columns for pipes, JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

Row = Sequence[str]


def print_table(columns: Row, rows: Sequence[Row]) -> None:
    """Print rows; on a terminal fitted to its width, elsewhere whole and without decoration."""
    if sys.stdout.isatty():
        _print_for_people(columns, rows)
    else:
        _print_plain(columns, rows)


def print_json(value: Any) -> None:
    """Print one JSON document, readable and in the order given."""
    import msgspec  # noqa: PLC0415 - only commands that print JSON pay for it

    text = msgspec.json.format(msgspec.json.encode(value), indent=2)
    sys.stdout.write(text.decode() + "\n")


def _print_for_people(columns: Row, rows: Sequence[Row]) -> None:
    from rich.console import Console  # noqa: PLC0415 - it takes longer to load than help to print
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        # As text, so that a name in square brackets is not taken for a style.
        table.add_row(*[Text(cell) for cell in row])
    Console().print(table)


def _print_plain(columns: Row, rows: Sequence[Row]) -> None:
    lines = [columns, *rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    for line in lines:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        sys.stdout.write("  ".join(padded).rstrip() + "\n")
