"""The measurement of the paths sees each of them from end to end, and nothing beside."""

from __future__ import annotations

from pathlib import Path

from tests.paths.daemon_paths import ALERT, CALLBACK, KEPT_OVERVIEW, OVERVIEW, trace_paths
from tests.paths.lines import PACKAGE, line_report, lines_by_room, room_of


async def test_each_path_is_traced_from_end_to_end(tmp_path: Path) -> None:
    """Every room on a path is seen, those beside it are not, and no view looks for the shard."""
    paths = await trace_paths(tmp_path, plays=1, warm_plays=1)
    rooms = {aim: set(traced.files_by_room()) for aim, traced in paths.items()}

    stored_and_sent = {"model", "tracking", "bus", "outputs"}
    assert rooms[CALLBACK] >= stored_and_sent | {"listening", "callbacks"}
    assert rooms[ALERT] >= stored_and_sent | {"workspace", "polling", "alerting"}
    assert rooms[OVERVIEW] >= {"listening", "web", "tracking", "model"}
    assert "alerting" not in rooms[CALLBACK]  # it reads the event as well, and is not waited for
    assert rooms[KEPT_OVERVIEW] <= {"listening", "web", "model"}
    assert "sandbox" not in set().union(*rooms.values())
    assert paths[OVERVIEW].shard_lookups == 0


def test_lines_are_counted_in_every_room() -> None:
    """No file of the package is left out of the lines by room."""
    lines = lines_by_room(PACKAGE)
    files = list(PACKAGE.rglob("*.py"))

    assert lines.total() == sum(len(path.read_text().splitlines()) for path in files)
    assert set(lines) == {room_of(path) for path in files}
    assert any("without the sandbox" in line for line in line_report())
