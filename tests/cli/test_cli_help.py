"""The examples in every ``--help`` can be typed as they stand."""

from __future__ import annotations

import re
import shlex

import pytest
import typer
from typer.main import get_command

from monitor.cli.command_table import COMMANDS, CommandEntry
from monitor.cli.main import app, main
from monitor.workspace.calling import resolve

_OTHER_COMMAND = re.compile(r" (?:>|\|\||&&) ")  # of the shell

EXAMPLES = [(entry.name, example) for entry in COMMANDS for example in entry.examples]


@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=[example for _, example in EXAMPLES])
def test_an_example_is_understood(name: str, example: str) -> None:
    """Each example names its own command, with arguments and options that the command has."""
    first, *arguments = shlex.split(_OTHER_COMMAND.split(example, maxsplit=1)[0])
    assert first == name
    group = get_command(app)
    with typer.Context(group, info_name="dataprep-monitor") as context:
        command = group.get_command(context, name)  # type: ignore[attr-defined] # a group has commands
        parsed = command.make_context(name, arguments, parent=context)
    assert parsed.params
    if name == "api":
        assert resolve(parsed.params["words"])


@pytest.mark.parametrize("name", [entry.name for entry in COMMANDS])
def test_help_shows_all_examples_each_on_its_line(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """No example is cut or wrapped, however long it is."""
    assert main([name, "--help"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    expected = [
        f"Example: dataprep-monitor {example}" for command, example in EXAMPLES if command == name
    ]
    assert lines[-len(expected) :] == expected


@pytest.mark.parametrize("entry", COMMANDS, ids=[entry.name for entry in COMMANDS])
def test_the_line_of_a_command_is_the_first_of_its_own_help(entry: CommandEntry) -> None:
    """The table's line is the command's own first line, and fits a terminal."""
    group = get_command(app)
    with typer.Context(group, info_name="dataprep-monitor") as context:
        command = group.get_command(context, entry.name)  # type: ignore[attr-defined] # a group has commands
    assert command.help.split("\n\n")[0].replace("\n", " ") == entry.help
    assert len(f"  {'operations'}  {entry.help}") <= 80


def test_an_example_of_api_for_each_of_its_forms() -> None:
    """Method and path, id, query, body, every page, a file out and a file in are all shown."""
    shown = " ".join(example for name, example in EXAMPLES if name == "api")
    forms = ("GET /v4/", "getJobGroup ", " -q ", " -d '{", " --all", " --out ", " -d @")
    assert [form for form in forms if form not in shown] == []
