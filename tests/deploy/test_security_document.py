"""``.github/SECURITY.md`` by its tests: each row and promise is held by some that are there."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from monitor.catalogue.operations import operations
from tests.deploy.documents import ABOUT, ROOT
from tests.deploy.security_claims import NOT_OURS, SENTENCES, TABLES

DOCUMENT = (ROOT / ABOUT / "SECURITY.md").read_text()
# Rooms that the daemon consists of. The command `api` calls any operation, by hand.
ROOMS = ("app", "callbacks", "polling", "tracking", "workspace", "web")
# Names those that start a run, because they are sent in another way.
ELSEWHERE = ROOT / "monitor" / "workspace" / "transport.py"
# What users ask for, where `[server] actions` is on.
ACTIONS = (
    ROOT / "monitor" / "workspace" / "run_control.py",
    ROOT / "monitor" / "app" / "hosted" / "run_actions.py",
)


def rows(heading: str) -> list[str]:
    """Return the first cell of each row below a heading."""
    section = DOCUMENT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (.+?) \|", section, re.MULTILINE)
    return cells[1:]


@functools.cache
def names_in(path: str) -> frozenset[str]:
    """Return the tests and their classes in a file."""
    tree = ast.parse((ROOT / path).read_text())
    defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, defined))


def missing(tests: tuple[str, ...]) -> list[str]:
    """Return those that are not there."""
    files = [(test, *test.partition("::")[::2]) for test in tests]
    return [
        test
        for test, path, name in files
        if not (ROOT / path).is_file() or (name and name not in names_in(path))
    ]


@pytest.mark.parametrize("heading", TABLES)
def test_each_row_is_held_by_tests(heading: str) -> None:
    """A row that is new, and a test that is gone, are noticed."""
    held, found = TABLES[heading], rows(heading)
    assert found
    unheld = [row for row in found if not row.startswith((*held, *NOT_OURS))]
    assert unheld == []
    assert [key for key in held if not any(row.startswith(key) for row in found)] == []
    assert all(held.values())
    assert [test for tests in held.values() for test in missing(tests)] == []


def test_each_promise_is_held_by_tests() -> None:
    """Sentences outside of the tables too."""
    text = " ".join(DOCUMENT.split())
    assert [sentence for sentence in SENTENCES if sentence not in text] == []
    assert [test for tests in SENTENCES.values() for test in missing(tests)] == []


def writes_named_in(*paths: Path) -> set[str]:
    """Return the operations that change something in a workspace and that files name."""
    writes = {each.operation_id for each in operations() if each.method != "GET"}
    trees = [ast.parse(path.read_text()) for path in paths]
    words = [
        node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)
    ]
    return writes.intersection(word for word in words if isinstance(word, str))


def test_the_daemon_writes_webhook_tasks_by_itself() -> None:
    """Beside the actions of users, no room names another operation that changes something."""
    paths = [path for room in ROOMS for path in (ROOT / "monitor" / room).rglob("*.py")]
    assert writes_named_in(*(path for path in paths if path not in (ELSEWHERE, *ACTIONS))) == {
        "createWebhookFlowTask",
        "deleteWebhookFlowTask",
        "testWebhook",
    }


def test_one_module_names_what_starts_and_cancels_runs() -> None:
    """Users' actions can start and cancel runs, and change nothing else in a workspace."""
    assert writes_named_in(*ACTIONS) == {
        "cancelJobGroup",
        "cancelPlanSnapshotRun",
        "runFlow",
        "runJobGroup",
        "runPlan",
    }
    users = [
        path
        for path in (ROOT / "monitor").rglob("*.py")
        if re.search(r"run_control\.(start|cancel)|self\._client\.run_control", path.read_text())
    ]
    assert users == [ACTIONS[1]]
