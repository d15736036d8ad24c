"""Holds the documents to what they speak of: commands, files, and words of the log."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from monitor.cli.main import app
from tests.deploy.documents import ROOT, commands, documents, links, own_paths

FILES = [
    *documents(),
    ROOT / "config" / "monitor.toml",
    ROOT / "deploy" / "Containerfile",
    ROOT / "deploy" / "dataprep-monitor.service",
]
GUIDE = ROOT / "deploy" / "README.md"


def name_of(path: Path) -> str:
    """Return how a file is called in a test's name."""
    return str(path.relative_to(ROOT))


def options_of_commands() -> dict[str, set[str]]:
    """Return every command there is, with its options."""
    group = typer.main.get_command(app)
    return {
        name: {option for param in command.params for option in param.opts} | {"--help"}
        for name, command in getattr(group, "commands", {}).items()
    }


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_documents_name_only_commands_that_exist(path: Path) -> None:
    """Each command that a document shows is registered and has the options shown with it."""
    known = options_of_commands()
    assert known
    unknown = [
        f"{command} {' '.join(options)}"
        for command, options in commands(path)
        if command not in known or not known[command].issuperset(options)
    ]
    assert unknown == []


def test_commands_are_found_where_they_are_shown() -> None:
    """The test above really reads commands: with a folder in front, and from several files."""
    assert ("check", []) in commands(GUIDE)
    assert ("run", ["-c"]) in commands(ROOT / "README.md")


@pytest.mark.parametrize("path", documents(), ids=name_of)
def test_documents_name_only_files_that_exist(path: Path) -> None:
    """Each file of the project that a document's commands use, or that it links to, is there."""
    named = {own_path: ROOT / own_path for own_path in own_paths(path)}
    linked = {link: path.parent / link for link in links(path)}
    assert [name for name, file in (named | linked).items() if not file.exists()] == []


def test_the_guide_quotes_texts_of_the_monitor() -> None:
    """The guide quotes texts of the program."""
    table = GUIDE.read_text().partition("What the monitor says:")[2]
    quoted = re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
    sources = "\n".join(path.read_text() for path in (ROOT / "monitor").rglob("*.py"))
    assert quoted
    assert [words for words in quoted if words not in sources] == []
