"""The table of decisions names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent.parent
_HEAD = "| decision | what goes wrong in the naive version | test |"


def rows() -> list[list[str]]:
    lines = (TESTS / "decisions" / "README.md").read_text().splitlines()
    begin = lines.index(_HEAD) + 2
    table = []
    for line in lines[begin:]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split("|")])
    return table


def named_in(path: Path) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    }


def test_each_decision_names_tests_that_exist() -> None:
    """Renaming or removing a test of the table fails here."""
    table = rows()
    assert len(table) > 40
    missing = []
    for decision, _, cell in table:
        named = re.findall(r"`([^`:]+)::([^`]+)`", cell)
        assert named, f"{decision}: no test is named"
        for place, name in named:
            path = TESTS / place
            if not path.is_file() or name not in named_in(path):
                missing.append(f"{decision}: {place}::{name}")
    assert missing == []


def test_each_test_of_this_folder_holds_a_decision() -> None:
    """A test that stands here and in no line of the table holds nothing that was decided."""
    named = " ".join(cell for _, _, cell in rows())
    others = [
        f"{path.name}::{name}"
        for path in sorted(Path(__file__).parent.glob("test_*.py"))
        if path.name != Path(__file__).name
        for name in sorted(named_in(path))
        if f"`decisions/{path.name}::{name}`" not in named
    ]
    assert others == []
