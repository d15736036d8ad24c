"""Lines of Python by room, and of the tests by folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "monitor"
TESTS = ROOT / "tests"
SANDBOX = "sandbox"


def room_of(path: Path, *, below: Path = PACKAGE) -> str:
    """Return the room of a file: its folder below the package, or itself where it has none."""
    return path.relative_to(below).parts[0].removesuffix(".py")


def lines_by_room(below: Path) -> Counter[str]:
    """Return how many lines of Python each room has."""
    lines: Counter[str] = Counter()
    for path in below.rglob("*.py"):
        lines[room_of(path, below=below)] += path.read_text().count("\n")
    return lines


def line_report() -> Iterable[str]:
    """Yield the tables of both."""
    rooms, folders = lines_by_room(PACKAGE), lines_by_room(TESTS)
    product = rooms.total() - rooms[SANDBOX]
    yield f"Lines of monitor/: {product:,} without the sandbox, {rooms.total():,} with it"
    yield from (f"  {count:>7,}  {room}" for room, count in rooms.most_common())
    yield f"Lines of tests/: {folders.total():,}"
    yield from (f"  {count:>7,}  {folder}" for folder, count in folders.most_common())
