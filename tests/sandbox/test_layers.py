"""Holds the order of the sandbox's operations: what is data never needs what acts."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from monitor.sandbox.api.routes import SERVING

API = Path(__file__).parents[2] / "monitor" / "sandbox" / "api"
ROOT = "monitor.sandbox.api."
ACTING = ("calls", "crud", "routes", "server")
DATA_FOLDERS = {"models", "request", "response"}


def is_data(path: Path) -> bool:
    """True for descriptions as data: kinds, shapes, and what they are made with."""
    return path.parent.name in DATA_FOLDERS or path.stem.endswith(("_kinds", "_shapes"))


def imports_of(path: Path) -> list[str]:
    """Return the modules that a file imports from the operations."""
    nodes = ast.walk(ast.parse(path.read_text()))
    names = [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    return [name.removeprefix(ROOT) for name in names if name.startswith(ROOT)]


@pytest.mark.parametrize(
    "path",
    [item for item in sorted(API.rglob("*.py")) if is_data(item)],
    ids=lambda character: character.stem,
)
def test_data_needs_nothing_that_acts(path: Path) -> None:
    """Kinds and shapes are there before any handler is, so that handlers may use them all."""
    wrong = [name for name in imports_of(path) if name.split(".")[0] in ACTING]
    assert wrong == []


@pytest.mark.parametrize(
    "path", sorted((API / "crud").glob("*.py")), ids=lambda character: character.stem
)
def test_shared_parts_know_no_family(path: Path) -> None:
    """The parts that all resources share name none of them."""
    families = {module.__name__.split(".")[-2] for module in SERVING}
    assert not families & {name.split(".")[0] for name in imports_of(path)}


def test_only_the_front_knows_all_families() -> None:
    """The tables of all resources and handlers are handed on; nothing else imports them."""
    users = {
        path.name
        for path in API.rglob("*.py")
        if {"resources", "routes"} & {name.split(".")[0] for name in imports_of(path)}
    }
    assert users == {"server.py"}
