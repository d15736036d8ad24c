"""Which columns a table has, and how their values read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from monitor.cli.row_layout import Column, Form, Laid, cell, lay_out
from monitor.model.words import NOTHING

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)
COLUMNS = (
    Column("status", "status", Form.STATE),
    Column("name", "pipeline"),
    Column("id", "run", Form.COPIED),
    Column("at", "created", Form.INSTANT),
    Column("owner", "owner", is_wide=True),
    Column("reason", "reason", Form.TEXT),
)


def row(**more: Any) -> dict[str, Any]:
    return {
        "status": "failed", "name": "orders", "id": "1", "at": "2026-11-21T09:48:00Z",
        "owner": "ada", "reason": None, **more,
    }  # fmt: skip


def laid(*rows: dict[str, Any], is_wide: bool = False) -> Laid:
    return lay_out(rows, COLUMNS, is_wide=is_wide, now=NOW)


def titles(of: Laid) -> list[str]:
    return [column.title for column in of.columns]


def test_columns_that_all_rows_share_are_said_once() -> None:
    """Columns of one value are left out and named; empty ones are left out without a word."""
    made = laid(row(), row(id="2", at="2026-11-21T09:00:00Z"))
    assert titles(made) == ["run", "created"]
    assert made.common == [("status", "failed"), ("pipeline", "orders")]
    assert made.cells == [["1", "12 min ago"], ["2", "60 min ago"]]


def test_a_single_row_keeps_its_columns() -> None:
    """One row shares everything with itself, and still is a row."""
    made = laid(row())
    assert titles(made) == ["status", "pipeline", "run", "created"]
    assert made.common == []


def test_rows_that_are_wholly_alike_can_be_counted() -> None:
    """A column remains, so that there is a line for each of them."""
    columns = COLUMNS[:2]
    made = lay_out([row(), row(), row()], columns, is_wide=False, now=NOW)
    assert (titles(made), len(made.cells), made.common) == (["status"], 3, [("pipeline", "orders")])


def test_a_wide_table_has_all_columns_and_instants() -> None:
    """Nothing is left out, shortened or relative."""
    made = laid(row(name="x" * 500), row(id="2"), is_wide=True)
    assert titles(made) == ["status", "pipeline", "run", "created", "owner", "reason"]
    assert made.cells[0] == ["failed", "x" * 500, "1", "2026-11-21T09:48:00Z", "ada", NOTHING]
    assert made.common == []


def test_a_name_is_cut_and_what_is_copied_is_not() -> None:
    """5,000 characters of a name break no table; an id stays whole however long it is."""
    made = laid(row(name="n" * 5_000, id="i" * 300, reason="r" * 5_000), row())
    name, run, reason = made.cells[0]
    assert (len(name), name[-1]) == (48, "…")
    assert run == "i" * 300
    assert (len(reason), reason[-1]) == (300, "…")


@pytest.mark.parametrize("form", list(Form))
def test_control_characters_are_escaped(form: Form) -> None:
    """No name colours, moves or reverses what stands after it; a line stays one line."""
    if form in (Form.INSTANT, Form.SECONDS, Form.COUNT):
        value: Any = {Form.INSTANT: "~2026-11-21T10:12:00Z", Form.SECONDS: 754, Form.COUNT: 0}[form]
        words = {Form.INSTANT: "~in 12 min", Form.SECONDS: "12 min 34 s", Form.COUNT: NOTHING}[form]
    else:
        value, words = "a\x1b[31m\u202eb\nc\td", r"a\x1b[31m\u202eb c d"
    assert cell(value, form, is_wide=False, now=NOW) == words


def test_an_approximate_instant_keeps_its_mark() -> None:
    """The mark stands before the words as before the instant."""
    at = (NOW - timedelta(hours=3)).isoformat()
    assert cell(f"~{at}", Form.INSTANT, is_wide=False, now=NOW) == "~3 h ago"
    recorded = cell(f"recorded:{at}", Form.INSTANT, is_wide=True, now=NOW)
    assert recorded == "recorded:2026-11-21T07:00:00Z"
