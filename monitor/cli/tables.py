"""Prints results on stdout: a table for people, JSON and CSV for programs."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from monitor.cli import lazy_terminal, time_options
from monitor.cli.row_layout import Column, Form, Laid, OutputForm, Row, caption, lay_out
from monitor.model.outside import harmless

# A spreadsheet takes a text that begins so for a formula, and runs it when the file is opened. In
# many countries it cuts cells at semicolons, or at what the reader chooses, whatever is quoted.
_SIGNS = (
    r"=+@\-\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}\N{FULLWIDTH COMMERCIAL AT}"
    r"\N{FULLWIDTH HYPHEN-MINUS}"
)
_FORMULA = re.compile(rf"\A(?=\s*[{_SIGNS}]|[\t\n])|(?<=[,;|:\t\n])(?=[^\S\n]*[{_SIGNS}])")
_GAP = 2
_WHOLE = 1_000_000  # characters


def print_rows(
    rows: Sequence[Row],
    columns: Sequence[Column],
    form: OutputForm,
    *,
    raw: Sequence[Row] | None = None,
    fields: Sequence[str] = (),
    empty: str = "nothing to show",
) -> None:
    """Print rows in the form that was chosen.

    Programs get ``raw``, the rows as the daemon sent them, and of them as CSV the ``fields``, by
    default those of the columns. ``empty`` is what people read instead of an empty table.
    """
    given = rows if raw is None else raw
    if form is OutputForm.JSON:
        print_json(given)
    elif form is OutputForm.CSV:
        print_csv(given, fields or [column.field for column in columns])
    elif not rows:
        print_remark(empty)
    else:
        is_wide = form is OutputForm.WIDE
        print_laid(lay_out(rows, columns, is_wide=is_wide, now=time_options.now()))


def print_json(value: Any) -> None:
    """Print one JSON document, readable and in the order given."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2)
    sys.stdout.write(text.decode() + "\n")


def print_csv(rows: Iterable[Row], fields: Sequence[str], *, has_head: bool = True) -> None:
    """Print rows as CSV with the fields named; ``labels.rule`` is a field of a field.

    All is quoted, and an apostrophe stands before each text that a spreadsheet would run.
    """
    writer = csv.writer(sys.stdout, lineterminator="\n", quoting=csv.QUOTE_ALL)
    if has_head:
        writer.writerow(fields)
    writer.writerows([_csv_cell(_value(row, field)) for field in fields] for row in rows)


def print_laid(laid: Laid) -> None:
    """Print what was laid out: on a terminal coloured and fitted to its width, elsewhere whole."""
    if sys.stdout.isatty():
        lazy_terminal.terminal.print_table(laid)
        return
    print_plain([column.title for column in laid.columns], laid.cells)
    if laid.common:
        sys.stdout.write(f"{caption(laid)}\n")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print texts under titles; the last column is the one that may be long."""
    titles = [Column(title, title, Form.COPIED) for title in columns[:-1]]
    last = Column(columns[-1], columns[-1], Form.TEXT)
    print_laid(Laid((*titles, last), [list(row) for row in rows], []))


def print_plain(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print texts whole, in aligned columns: what is long stays in one piece to be copied."""
    lines = [columns, *rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    for line in lines:
        padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        sys.stdout.write((" " * _GAP).join(padded).rstrip() + "\n")


def print_cut(shown: int, *, of: int | None = None) -> None:
    """Say that there are more rows than were printed, and how to get them."""
    these = f"the first {shown:,}" if of is None else f"{shown:,} of {of:,}"
    print_remark(f"showing {these}; --limit 0 for all")


def print_remark(sentence: str) -> None:
    """Tell people something about the rows, where no program reads them."""
    sys.stderr.write(f"{sentence}\n")


def _value(row: Any, field: str) -> Any:
    for part in field.split("."):
        row = row.get(part) if isinstance(row, dict) else None
    return row


def _csv_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, dict):
        text = msgspec.json.encode(value).decode()
    elif isinstance(value, list | tuple):
        text = "; ".join(_csv_cell(part) for part in value)
    else:
        text = str(value).replace("\r", "\n")  # which not all readers take for a part of a text
    text = harmless(text, longest=_WHOLE, has_lines=True)
    return _FORMULA.sub("'", text)
