"""Lays rows out for people: which columns, in which words. Pure: the caller names the time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum, auto
from typing import Any, NamedTuple

from monitor.model import words
from monitor.model.outside import harmless

Row = Mapping[str, Any]

_LONGEST_NAME = 48  # characters in a table; wide has all of them
_LONGEST_TEXT = 300
_WHOLE = 100_000
_MARK = re.compile(r"^\D*")  # before an instant: approximate, or recorded by us
_CUT = "\N{HORIZONTAL ELLIPSIS}"


class OutputForm(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    CSV = "csv"


class Form(StrEnum):
    """What a column holds, which decides its words."""

    NAME = auto()  # cut where it is very long
    COPIED = auto()  # an id or URL: never cut, never left out
    STATE = auto()  # coloured by its word
    INSTANT = auto()  # relative in a table
    SECONDS = auto()
    COUNT = auto()  # nothing where it is 0
    TEXT = auto()  # a sentence, at the end of its row


class Column(NamedTuple):
    """One column: a field of its rows, and its title."""

    field: str
    title: str
    form: Form = Form.NAME
    is_wide: bool = False  # shown in wide tables only
    gives_way: bool = False  # left out where the terminal is too narrow


class Laid(NamedTuple):
    """Rows as texts. ``common`` are titles and values that all rows share."""

    columns: tuple[Column, ...]
    cells: list[list[str]]
    common: list[tuple[str, str]]


def lay_out(
    rows: Sequence[Row], columns: Sequence[Column], *, is_wide: bool, now: datetime
) -> Laid:
    """Return the rows in words.

    A table leaves out the columns that are empty, and those in which all of several rows are alike.
    A wide one leaves out nothing.
    """
    shown = tuple(column for column in columns if is_wide or not column.is_wide)
    cells = [
        [cell(row.get(column.field), column.form, is_wide=is_wide, now=now) for column in shown]
        for row in rows
    ]
    if is_wide:
        return Laid(tuple(column._replace(gives_way=False) for column in shown), cells, [])
    kept: list[int] = []
    common: list[tuple[str, str]] = []
    for index, column in enumerate(shown):
        values = {line[index] for line in cells}
        is_alike = len(rows) > 1 and len(values) == 1 and column.form is not Form.COPIED
        if values == {words.NOTHING}:
            continue
        if is_alike:
            common.append((column.title, next(iter(values))))
        else:
            kept.append(index)
    if not kept:  # of rows that are wholly alike, one column remains to be counted
        kept, common = [0], common[1:]
    return Laid(
        tuple(shown[index] for index in kept),
        [[line[index] for index in kept] for line in cells],
        common,
    )


def without(laid: Laid, left_out: int) -> Laid:
    """Return what was laid out without one of its columns."""
    kept = [index for index in range(len(laid.columns)) if index != left_out]
    columns = tuple(laid.columns[index] for index in kept)
    return Laid(columns, [[line[index] for index in kept] for line in laid.cells], laid.common)


def caption(laid: Laid) -> str:
    """Return what all rows share, which no column repeats."""
    return "all: " + ", ".join(f"{title} {value}" for title, value in laid.common)


def cell(value: Any, form: Form, *, is_wide: bool, now: datetime) -> str:
    """Return a value as one line without control characters."""
    if isinstance(value, list | tuple):
        value = ", ".join(str(part) for part in value)
    if value is None or value == "":
        return words.NOTHING
    if form is Form.INSTANT:
        return _instant(str(value), is_wide=is_wide, now=now)
    if form is Form.SECONDS and isinstance(value, int | float):
        return words.duration(value)
    if form is Form.COUNT and isinstance(value, int | float):
        return f"{value:,}" if value else words.NOTHING
    text = " ".join(harmless(str(value), longest=_WHOLE, has_lines=True).split())
    if is_wide or form in (Form.COPIED, Form.STATE):
        return text or words.NOTHING
    return cut(text, _LONGEST_TEXT if form is Form.TEXT else _LONGEST_NAME) or words.NOTHING


def cut(text: str, longest: int) -> str:
    """Return at most so many characters; what is cut ends in a mark."""
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}{_CUT}"


def _instant(text: str, *, is_wide: bool, now: datetime) -> str:
    mark = _MARK.match(text)
    begin = mark[0] if mark is not None else ""
    at = datetime.fromisoformat(text[len(begin) :])
    return begin + (words.iso(at) if is_wide else words.relative((now - at).total_seconds()))
