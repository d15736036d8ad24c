"""Prints results on stdout: a table for people, plain columns for pipes, JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from monitor.cli import terminal

Row = Sequence[str]


def print_table(columns: Row, rows: Sequence[Row]) -> None:
    """Print rows; on a terminal fitted to its width, elsewhere whole and without decoration."""
    if sys.stdout.isatty():
        terminal.print_table(columns, rows)
    else:
        print_plain(columns, rows)


def print_json(value: Any) -> None:
    """Print one JSON document, readable and in the order given."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2)
    sys.stdout.write(text.decode() + "\n")


def print_plain(columns: Row, rows: Sequence[Row]) -> None:
    """Print rows whole, in aligned columns: what is long stays in one piece to be copied."""
    lines = [columns, *rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    for line in lines:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        sys.stdout.write("  ".join(padded).rstrip() + "\n")
