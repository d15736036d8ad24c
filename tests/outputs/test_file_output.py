"""Events as lines of a real file: whole, durable and in order, whatever happens to the file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from monitor.model.clock import Clock, SystemClock
from monitor.model.events import Event, RunEvent
from monitor.outputs.cloudevents import encode, message_of
from monitor.outputs.file.output import FileOutput
from monitor.outputs.file.path_checks import path_problem
from monitor.outputs.file.settings import FileSettings
from tests.cli.doctor_scenario import without_rights
from tests.crash.disks import small_file_system
from tests.outputs.histories import run_event, workspace_event
from tests.outputs.output_scenario import QUICK, OutputScenario

NAME = "events.jsonl"


def scenario_of(folder: Path, path: Path | None = None, **more: Any) -> OutputScenario:
    """Return a scenario whose output writes to a file; the store is in the folder."""
    settings = FileSettings(**{**QUICK, "path": str(path or folder / NAME), **more})
    return OutputScenario(folder, lambda scenario: FileOutput(settings, scenario.parts))


def some(*numbers: int) -> list[RunEvent]:
    return [run_event(str(number)) for number in numbers]


def ids_in(*files: Path) -> list[str]:
    """Return the id of each line; fails at a line that is no event."""
    return [json.loads(line)["id"] for file in files for line in file.read_bytes().splitlines()]


def files_of(folder: Path) -> list[Path]:
    """Return the rotated files by name, and after them the present one."""
    return [*sorted(folder.glob(f"{NAME}.*")), folder / NAME]


async def test_each_event_is_a_line_as_the_webhook_sends_it(tmp_path: Path) -> None:
    """Two lives append in the order of the log, and select by the same globs as the webhook."""
    events: list[Event] = [*some(1, 2), workspace_event()]
    async with scenario_of(tmp_path, events=("run.*",)) as scenario:
        await scenario.start()
        await scenario.emit(*events[:1])
        await scenario.until_delivered()
        await scenario.stop()
        await scenario.emit(*events[1:])
        await scenario.start()
        await scenario.until_delivered()
        assert (scenario.count("delivered"), scenario.count("skipped")) == (1, 1)
    lines = [encode(message_of(event, position=at)) for at, event in enumerate(events[:2], 1)]
    assert (tmp_path / NAME).read_bytes() == b"".join(line + b"\n" for line in lines)


@pytest.mark.parametrize("left", [1, 5, 100, -1], ids=lambda left: f"up to byte {left}")
async def test_a_line_that_a_crash_cut_off_is_healed(tmp_path: Path, left: int) -> None:
    """After `kill -9` in the middle of a line, every line is one event, and none is missing."""
    file = tmp_path / NAME
    async with scenario_of(tmp_path) as scenario:
        await scenario.start()
        await scenario.emit(*some(1))
        await scenario.until_delivered()
        await scenario.kill()
        before = file.read_bytes()
        # The process dies in the middle of this line, so nothing of it was acknowledged.
        (event,) = some(2)
        file.write_bytes(before + encode(message_of(event, position=2))[:left])
        await scenario.emit(event, *some(3))
        await scenario.start()
        await scenario.until_delivered()
    assert file.read_bytes().startswith(before)
    assert ids_in(file) == [event.id for event in some(1, 2, 3)]


async def test_a_whole_event_without_its_line_end_is_kept(tmp_path: Path) -> None:
    """An editor or a copy may lose the last byte of the file; the event was acknowledged."""
    async with scenario_of(tmp_path) as scenario:
        await scenario.start()
        await scenario.emit(*some(1, 2))
        await scenario.until_delivered()
        await scenario.stop()
        file = tmp_path / NAME
        file.write_bytes(file.read_bytes().rstrip(b"\n"))
        await scenario.start()
        await scenario.emit(*some(3))
        await scenario.until_delivered()
    assert ids_in(file) == [event.id for event in some(1, 2, 3)]


async def test_a_text_of_another_program_is_ended_and_kept(tmp_path: Path) -> None:
    """A line that does not begin as our lines do is not ours to remove."""
    (tmp_path / NAME).write_bytes(b'{"not": "an event"')
    async with scenario_of(tmp_path) as scenario:
        await scenario.start()
        await scenario.emit(*some(1))
        await scenario.until_delivered()
    foreign, line = (tmp_path / NAME).read_bytes().splitlines()
    assert (foreign, json.loads(line)["id"]) == (b'{"not": "an event"', some(1)[0].id)


async def test_rotation_under_load_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """Files in the order of their names hold the log, none above its size, none overwritten."""
    events = some(*range(400))
    async with scenario_of(tmp_path, rotate_bytes=20_000, keep=1_000) as scenario:
        await scenario.start()
        for begin in range(0, len(events), 40):
            await scenario.emit(*events[begin : begin + 40])
        await scenario.until_delivered()
    files = files_of(tmp_path)
    assert ids_in(*files) == [event.id for event in events]
    assert len(files) > 10
    assert max(file.stat().st_size for file in files) <= 20_000


async def test_more_rotated_files_than_are_kept_are_removed(tmp_path: Path) -> None:
    """The oldest go; a file that only resembles them stays."""
    other = tmp_path / f"{NAME}.20000101T000000Z-0000.gz"
    other.write_bytes(b"")
    events = some(*range(20))
    async with scenario_of(tmp_path, rotate_bytes=1, keep=3) as scenario:
        await scenario.start()
        await scenario.emit(*events)
        await scenario.until_delivered()
    other.unlink()
    assert ids_in(*files_of(tmp_path)) == [event.id for event in events[-4:]]


def move_away(file: Path) -> None:
    file.rename(file.with_name("taken"))


@pytest.mark.parametrize("take", [move_away, Path.unlink], ids=["moved", "removed"])
async def test_a_file_that_is_taken_away_is_made_again(
    tmp_path: Path, take: Callable[[Path], None]
) -> None:
    """A file that a shipper has taken is complete, and all that follows is in a new file."""
    file = tmp_path / NAME
    async with scenario_of(tmp_path) as scenario:
        await scenario.start()
        await scenario.emit(*some(1))
        await scenario.until_delivered()
        take(file)
        await scenario.emit(*some(2))
        await scenario.until_delivered()
    assert ids_in(file) == [event.id for event in some(2)]


def make_folder(path: Path) -> None:
    path.mkdir(parents=True)


def make_link(path: Path) -> None:
    path.parent.mkdir()
    path.symlink_to(path.with_name("elsewhere"))


def make_pipe(path: Path) -> None:
    path.parent.mkdir()
    os.mkfifo(path)


def make_a_store(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"SQLite format 3\0")


def make_parent_a_file(path: Path) -> None:
    path.parent.write_bytes(b"")


def make_nothing(path: Path) -> None:
    assert not path.parent.exists()


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (make_nothing, "there is no such folder"),
        (make_folder, "is a folder"),
        (make_link, "is a symbolic link"),
        (make_pipe, "is no regular file"),
        (make_a_store, "holds something else than lines of JSON"),
        (make_parent_a_file, "a part of the path is no folder"),
    ],
)
async def test_an_obstacle_is_reported_and_nothing_is_lost(
    tmp_path: Path, make: Callable[[Path], None], problem: str
) -> None:
    """Readiness, `check` and `doctor` name it before an event comes; mended, all is written."""
    file = tmp_path / "folder" / NAME
    make(file)
    async with scenario_of(tmp_path, file) as scenario:
        output, clock = scenario.output, scenario.clock
        assert isinstance(output, FileOutput)
        await assert_reported(file, clock, problem)
        await scenario.start()
        await scenario.until(lambda: problem in written_by(scenario).status)
        assert not written_by(scenario).is_well
        await scenario.emit(*some(1, 2))
        await scenario.until(lambda: scenario.count("failed") >= 2)

        rename(file.parent)
        file.parent.mkdir()
        await scenario.until_delivered()
        assert written_by(scenario).is_well
    assert ids_in(file) == [event.id for event in some(1, 2)]


@pytest.mark.parametrize(("length", "is_refused"), [(231, False), (232, True), (300, True)])
def test_a_name_leaves_room_for_that_of_a_rotated_file(
    tmp_path: Path, length: int, *, is_refused: bool
) -> None:
    """A name that opens, and could never be rotated, is refused at once."""
    problem = path_problem(tmp_path / ("e" * length))
    assert (problem is not None and "name is too long" in problem) == is_refused


def written_by(scenario: OutputScenario) -> FileOutput:
    assert isinstance(scenario.output, FileOutput)
    return scenario.output


def rename(path: Path) -> None:
    """Take whatever is at this path out of the way."""
    if path.exists():
        path.rename(path.with_name("former"))


async def assert_reported(file: Path, clock: Clock, problem: str) -> None:
    """Assert that the problem fails in `check` and in `doctor`, with a hint."""
    settings = FileSettings(path=str(file))
    (found,) = FileOutput.path_problems(settings)
    assert found.startswith(f"path: {problem}")
    (line,) = await FileOutput.check(settings, clock=clock)
    assert (line.outcome, line.found) == ("failed", f"{file}: {problem}")
    assert line.hint


@pytest.mark.parametrize("folder", [Path("/"), Path("/root")])
async def test_a_missing_right_is_reported(folder: Path) -> None:
    """Judged for the user that runs the command, in folders that it may and may not read."""
    with without_rights():
        await assert_reported(folder / NAME, SystemClock(), "the right to write is missing")


async def test_a_full_disk_is_waited_for(tmp_path: Path) -> None:
    """No line is torn or lost: what did not fit comes once there is room, in order."""
    events = some(*range(300))
    with small_file_system(tmp_path) as disk:
        folder = disk.path.parent
        async with scenario_of(tmp_path, folder / NAME) as scenario:
            await scenario.start()
            await scenario.emit(*events[:1])
            await scenario.until_delivered()
            disk.fill(0)
            await scenario.emit(*events[1:])
            await scenario.until(lambda: "the disk is full" in written_by(scenario).status)
            assert ids_in(folder / NAME)[:1] == [events[0].id]
            disk.free(0)
            await scenario.until_delivered()
            assert written_by(scenario).is_well
        assert ids_in(folder / NAME) == [event.id for event in events]


async def test_two_daemons_do_not_share_a_file(tmp_path: Path) -> None:
    """The second one says so and waits until the first one is gone."""
    (tmp_path / "other").mkdir()
    async with (
        scenario_of(tmp_path) as first,
        scenario_of(tmp_path / "other", tmp_path / NAME) as second,
    ):
        await first.start()
        await first.emit(*some(1))
        await first.until_delivered()
        await second.start()
        await second.emit(*some(2))
        await second.until(lambda: "another process writes it" in written_by(second).status)
        await first.stop()
        await second.until_delivered()
    assert ids_in(tmp_path / NAME) == [event.id for event in some(1, 2)]
