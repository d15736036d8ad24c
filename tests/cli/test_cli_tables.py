"""Results are fitted to a terminal and left whole elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from monitor.cli.tables import print_table

ROWS = [("[bold]flow[/bold]", "x" * 100), ("plan", "y")]


def test_a_pipe_gets_whole_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is cut, coloured or read as a style."""
    print_table(("name", "path"), ROWS)
    assert capsys.readouterr().out.splitlines() == [
        "name               path",
        f"[bold]flow[/bold]  {'x' * 100}",
        "plan               y",
    ]


def test_a_terminal_gets_a_table_that_fits() -> None:
    """On a terminal long cells are folded into its width, and names stay as they are."""
    master, slave = os.openpty()
    code = f"from monitor.cli.tables import print_table; print_table(('name', 'path'), {ROWS!r})"
    environment = {**os.environ, "COLUMNS": "60", "TERM": "xterm", "NO_COLOR": "1"}
    subprocess.run(
        [sys.executable, "-c", code], stdout=slave, env=environment, timeout=30, check=True
    )
    os.close(slave)
    with os.fdopen(master, "rb", buffering=0) as terminal:
        lines = terminal.read(65_536).decode().splitlines()
    assert "[bold]flow[/bold]" in "".join(lines)
    assert max(len(line) for line in lines if "x" in line) <= 60 + len("\x1b[1m\x1b[0m")
    assert "".join(lines).count("x") == 100
