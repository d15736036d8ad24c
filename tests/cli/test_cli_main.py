"""The command as a whole: help, exit codes, and what goes where."""

from __future__ import annotations

import subprocess
import sys

import pytest

from monitor import __version__
from monitor.cli.command_table import COMMANDS
from monitor.cli.main import main

NO_INSTANT = "is not an ISO 8601 instant; write one as 2026-11-21T10:00:00Z, or a span as 30d or 2h"


def in_a_process(code: str) -> subprocess.CompletedProcess[str]:
    """Run Python code that uses the command, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )


def failing(failure: str) -> subprocess.CompletedProcess[str]:
    """Run a command that fails in that way."""
    return in_a_process(
        "import sys\n"
        "from monitor.cli.main import app, main\n"
        "from monitor.model.errors import *\n"
        "@app.command('fail')\n"
        f"def fail() -> None:\n    print('begun')\n    raise {failure}\n"
        "sys.exit(main(['fail']))\n"
    )


@pytest.mark.parametrize("command", [None, *[entry.name for entry in COMMANDS]])
def test_help_shows_an_example(capsys: pytest.CaptureFixture[str], command: str | None) -> None:
    """Each command's help goes to stdout and ends with something to type."""
    assert main([*([command] if command else []), "--help"]) == 0
    captured = capsys.readouterr()
    assert "Example: dataprep-monitor " in captured.out
    assert captured.err == ""


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """A command without a line of help is no command."""
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert [entry.name for entry in COMMANDS if f"\n  {entry.name} " not in out] == []


def test_help_loads_nothing_heavy() -> None:
    """Help answers fast because servers, clients, tables and settings are not loaded for it."""
    done = in_a_process(
        "import sys\n"
        "from monitor.cli.command_table import COMMANDS\n"
        "from monitor.cli.main import main\n"
        "main(['--help'])\n"
        "heavy = {'aiohttp', 'aiomqtt', 'rich', 'jinja2', 'prometheus_client', 'structlog',\n"
        "         'monitor.config', 'monitor.app', 'monitor.sandbox', 'amqtt',\n"
        "         'monitor.catalogue', 'asyncio', *(entry.target.partition(':')[0]\n"
        "                                           for entry in COMMANDS)}\n"
        "print('loaded:', sorted(heavy & set(sys.modules)))\n"
    )
    assert done.stdout.endswith("loaded: []\n")


def test_the_version_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """The version goes to stdout."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"dataprep-monitor {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["nothing"], ["--nothing"], ["check", "--nothing"]])
def test_wrong_usage_exits_2_and_reports_so_on_stderr(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """No command, an unknown one, or an unknown option: usage on stderr, nothing on stdout."""
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Usage: dataprep-monitor" in captured.err


def test_a_failure_of_ours_is_one_line() -> None:
    """An error of the tree exits 1 with its text and without a trace."""
    done = failing("WorkspaceUnreachableError('the workspace does not answer')")
    assert (done.returncode, done.stderr) == (1, "error: the workspace does not answer\n")
    assert done.stdout == "begun\n"


def test_a_wrong_configuration_exits_2() -> None:
    """Every fault that a command meets has its line, as with check."""
    done = failing("ConfigurationError(['a: 1: way out', 'b: 2: way out'])")
    assert (done.returncode, done.stderr) == (2, "a: 1: way out\nb: 2: way out\n")


def test_an_interruption_exits_130() -> None:
    """Ctrl-C ends a command without a trace."""
    done = failing("KeyboardInterrupt")
    assert (done.returncode, done.stderr) == (130, "")


def test_a_reader_that_leaves_is_no_drama() -> None:
    """``... | head`` ends the command without a trace."""
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m monitor.cli.main operations --json | head -1"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("[\n", "")


@pytest.mark.parametrize(
    ("since", "sentence"),
    [
        ("nonsense", NO_INSTANT),
        ("", NO_INSTANT),
        ("2026-02-30T10:00:00Z", NO_INSTANT),
        ("2026-11-21T10:00:00", "names no time zone; add Z or an offset"),
        ("2026-11-21", "names no time zone; add Z or an offset"),
        ("0h", NO_INSTANT),
        ("2 h", NO_INSTANT),
        ("999999999w", "is before all time"),
    ],
)
def test_no_instant_is_refused_without_a_request(
    capsys: pytest.CaptureFixture[str], since: str, sentence: str
) -> None:
    """One line on stderr and 2, although there is neither a daemon nor a configuration."""
    assert main(["events", "-c", "/nowhere/monitor.toml", "--since", since]) == 2
    assert capsys.readouterr() == ("", f"--since: {since!r} {sentence}\n")
