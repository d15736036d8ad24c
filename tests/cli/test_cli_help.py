"""The examples in every ``--help`` can be typed as they stand."""

from __future__ import annotations

import shlex

import pytest
import typer
from typer.main import get_command

from monitor.cli.main import COMMANDS, app, main
from monitor.workspace.calling import resolve

EXAMPLES = [(name, other_example) for name, _, examples in COMMANDS for other_example in examples]


@pytest.mark.parametrize(
    ("name", "example"), EXAMPLES, ids=[other_example for _, other_example in EXAMPLES]
)
def test_an_example_is_understood(name: str, example: str) -> None:
    """Each example names its own command, with arguments and options that the command has."""
    first, *arguments = shlex.split(example.split(" > ", maxsplit=1)[0])
    assert first == name
    group = get_command(app)
    with typer.Context(group, info_name="dataprep-monitor") as context:
        command = group.get_command(context, name)  # type: ignore[attr-defined] # a group has commands
        parsed = command.make_context(name, arguments, parent=context)
    assert parsed.params
    if name == "api":
        assert resolve(parsed.params["words"])


@pytest.mark.parametrize("name", [name for name, _, _ in COMMANDS])
def test_help_shows_all_examples_each_on_its_line(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """No example is cut or wrapped, however long it is."""
    assert main([name, "--help"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    wanted = [
        f"Example: dataprep-monitor {example}" for other, example in EXAMPLES if other == name
    ]
    assert lines[-len(wanted) :] == wanted


def test_an_example_of_api_for_each_of_its_forms() -> None:
    """Method and path, id, query, body, every page, a file out and a file in are all shown."""
    told = " ".join(example for name, example in EXAMPLES if name == "api")
    wanted = ("GET /v4/", "getJobGroup ", " -q ", " -d '{", " --all", " --out ", " -d @")
    assert [form for form in wanted if form not in told] == []
