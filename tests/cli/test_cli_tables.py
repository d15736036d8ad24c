"""How rows look on a terminal, in a pipe, and as CSV."""

from __future__ import annotations

import csv
import io
import os
import re
import subprocess
import sys
from typing import Any

import pytest

from monitor.cli.row_layout import Column, Form, OutputForm
from monitor.cli.tables import print_rows, print_table

URL = f"https://workspace.example.com/jobs/{'4' * 60}"
COLUMNS = (
    Column("state", "state", Form.STATE),
    Column("name", "name"),
    Column("took", "duration", Form.SECONDS, gives_way=True),
    Column("owner", "owner", gives_way=True),
    Column("url", "url", Form.COPIED),
    Column("reason", "reason", Form.TEXT),
)
ROWS: list[dict[str, Any]] = [
    {"state": "failed", "name": "[bold]a[/bold]", "url": URL, "took": 3,
     "owner": "ada", "reason": "no such column " * 9},
    {"state": "succeeded", "name": "b", "url": "-", "took": 75, "owner": "bob", "reason": None},
]  # fmt: skip
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_SCRIPT = """
from tests.cli.test_cli_tables import COLUMNS, ROWS, OutputForm
from monitor.cli.tables import print_rows
print_rows(ROWS, COLUMNS, OutputForm.TABLE)
"""


def on_a_terminal(**environment: str) -> str:
    """Return what a terminal gets, line ends as elsewhere."""
    master, slave = os.openpty()
    subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        stdout=slave,
        env={**os.environ, "TERM": "xterm", "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        timeout=30,
        check=True,
    )
    os.close(slave)
    with os.fdopen(master, "rb", buffering=0) as terminal:
        return terminal.read(65_536).decode().replace("\r\n", "\n")


def test_a_pipe_gets_whole_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is cut, coloured or read as a style."""
    print_table(("name", "path"), [("[bold]flow[/bold]", "x" * 100), ("plan", "y")])
    assert capsys.readouterr().out.splitlines() == [
        "name               path",
        f"[bold]flow[/bold]  {'x' * 100}",
        "plan               y",
    ]


@pytest.mark.parametrize("width", ["40", "140"])
def test_texts_to_copy_are_whole_on_a_terminal(width: str) -> None:
    """However narrow, a URL stands in one piece; the reason is wrapped between its words."""
    lines = on_a_terminal(COLUMNS=width, NO_COLOR="1").splitlines()
    assert sum(URL in line for line in lines) == 1
    assert "[bold]a[/bold]" in "".join(lines)
    words = " ".join(" ".join(lines).split())
    assert words.count("no such column") == 9
    reasons = [line for line in lines if "no such" in line]
    assert all(len(line) <= int(width) for line in reasons)


def test_columns_give_way_on_a_narrow_terminal() -> None:
    """The last that may go first, only as many as needed, each named; a wide one has them all."""
    wide, narrow, narrowest = (
        _ESCAPES.sub("", on_a_terminal(COLUMNS=width)).splitlines()
        for width in ("150", "135", "80")
    )
    assert wide[0].split() == ["state", "name", "duration", "owner", "url"]
    assert narrow[0].split() == ["state", "name", "duration", "url"]
    assert narrow[-1] == "too narrow for: owner; --output wide has all"
    assert narrowest[0].split() == ["state", "name", "url"]
    assert narrowest[-1] == "too narrow for: duration, owner; --output wide has all"


def test_colour_is_for_terminals() -> None:
    """A state has a colour there, and with NO_COLOR none."""
    assert "\x1b[31mfailed" in on_a_terminal(COLUMNS="140")
    assert "\x1b[31m" not in on_a_terminal(COLUMNS="140", NO_COLOR="1")


def test_colour_and_width_are_nothing_to_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    """The same table in a pipe is plain, with each row in one line."""
    print_rows(ROWS, COLUMNS, OutputForm.TABLE)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert "\x1b" not in "".join(lines)
    assert lines[1].endswith("no such column")


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\uff1d1"])
def test_a_spreadsheet_runs_no_name_as_a_formula(
    capsys: pytest.CaptureFixture[str], text: str
) -> None:
    """A text that begins as a formula does gets an apostrophe; a number stays a number."""
    rows: list[dict[str, Any]] = [{"name": text, "number": -1.5, "none": None, "list": [text, "b"]}]
    print_rows(rows, [], OutputForm.CSV, fields=("name", "number", "none", "list"))
    head, line = csv.reader(io.StringIO(capsys.readouterr().out))
    assert head == ["name", "number", "none", "list"]
    shown = re.sub(r"[\r\n\t]=", lambda found: f"{found[0][0]}'=".replace("\r", "\n"), text)
    assert line == [f"'{shown}", "-1.5", "", f"'{shown}; b"]


@pytest.mark.parametrize("separator", [";", ",", "\t", "|", ":", "\n", "; ", "\r"])
@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\uff1d", "\uff20"])
def test_a_spreadsheet_that_cuts_elsewhere_runs_no_formula(
    capsys: pytest.CaptureFixture[str], separator: str, sign: str
) -> None:
    """Where a text would become a cell of its own at another separator, it has an apostrophe."""
    print_rows([{"name": f"a{separator}{sign}1 - 2"}], [], OutputForm.CSV, fields=("name",))
    out = capsys.readouterr().out
    assert f"'{' ' * separator.endswith(' ')}{sign}1 - 2" in out
    assert out.count("'") == 1


def test_csv_quotes_everything(capsys: pytest.CaptureFixture[str]) -> None:
    """No cell, of the head or of a number, stands without quotes."""
    rows: list[dict[str, Any]] = [{"name": "a", "number": 7, "none": None}]
    print_rows(rows, [], OutputForm.CSV, fields=("name", "number", "none"))
    assert capsys.readouterr().out == '"name","number","none"\n"a","7",""\n'


def test_csv_quotes_what_holds_its_own_signs(capsys: pytest.CaptureFixture[str]) -> None:
    """Commas, quotes and line ends come back as they were."""
    text = 'a, "b"\nc'
    print_rows([{"name": {"inside": text}}], [], OutputForm.CSV, fields=("name.inside",))
    assert list(csv.reader(io.StringIO(capsys.readouterr().out))) == [["name.inside"], [text]]
