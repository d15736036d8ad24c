"""When a file of lines is rotated, and under which names, by a clock that a test moves."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from monitor.model.errors import OutputUnavailableError
from monitor.outputs.file.rotating_file import RotatingFile
from monitor.outputs.file.settings import FileSettings
from tests.clocks import ManualClock

EVENING = datetime(2026, 11, 22, 23, 59, 50, tzinfo=UTC)
TEN_SECONDS = timedelta(seconds=10)


def opened(folder: Path, clock: ManualClock, **more: float) -> RotatingFile:
    settings = FileSettings(path=str(folder / "e"), **{"rotate_bytes": 0, **more})  # type: ignore[arg-type]  # numbers
    return RotatingFile(settings, now=clock.now, may_write=lambda: True)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_file_holds_lines_of_a_single_period(tmp_path: Path, *, is_restarted: bool) -> None:
    """Periods begin at midnight UTC, also for a daemon that was down at that time."""
    clock = ManualClock(EVENING)
    file = opened(tmp_path, clock)
    assert file.append([b"{1}"]) == 1
    clock.set_wall(EVENING + TEN_SECONDS - timedelta(milliseconds=1))
    file.append([b"{2}"])
    if is_restarted:
        file.close()
        stamp = clock.now().timestamp()
        os.utime(tmp_path / "e", (stamp, stamp))
        file = opened(tmp_path, clock)
    clock.set_wall(EVENING + TEN_SECONDS)
    file.append([b"{3}", b"{4}"])
    file.close()
    assert contents(tmp_path) == {"e": b"{3}\n{4}\n", "e.20261123T000000Z-0000": b"{1}\n{2}\n"}


def test_a_quiet_file_is_rotated_too(tmp_path: Path) -> None:
    """Its time is over although no line comes, and an empty file is left as it is."""
    clock = ManualClock(EVENING)
    file = opened(tmp_path, clock)
    file.append([b"1"])
    for _ in range(2):
        clock.set_wall(clock.now() + timedelta(days=1))
        file.examine()
    file.close()
    assert contents(tmp_path) == {"e": b"", "e.20261123T235950Z-0000": b"1\n"}


def test_neither_size_nor_age_rotates_what_is_switched_off(tmp_path: Path) -> None:
    """With 0 for both, the file is left to the rotation of another program."""
    clock = ManualClock(EVENING)
    file = opened(tmp_path, clock, rotate_seconds=0)
    file.append([b"1"])
    clock.set_wall(EVENING + timedelta(days=400))
    file.append([b"2"] * 10_000)
    file.close()
    assert list(contents(tmp_path)) == ["e"]


def test_names_sort_by_time_and_overwrite_nothing(tmp_path: Path) -> None:
    """Also several in one second, beside files of others, and with a clock that was set back."""
    clock = ManualClock(EVENING)
    (tmp_path / "e.20261122T235950Z-0007").write_bytes(b"0")
    file = opened(tmp_path, clock, rotate_bytes=2)
    for number, wall in enumerate([EVENING, EVENING, EVENING - timedelta(days=1), EVENING], 1):
        clock.set_wall(wall)
        file.append([b"%d" % number])
    clock.set_wall(EVENING + TEN_SECONDS)
    file.append([b"5"])
    file.close()
    names = sorted(name for name in contents(tmp_path) if name != "e")
    assert [contents(tmp_path)[name][:1] for name in names] == [b"0", b"1", b"2", b"3", b"4"]
    assert names[-1] == "e.20261123T000000Z-0000"
    assert contents(tmp_path)["e"] == b"5\n"


def test_rotated_files_are_counted_beyond_four_digits(tmp_path: Path) -> None:
    """The next number follows the highest, and the newest files are kept."""
    clock = ManualClock(EVENING)
    for number in (9_998, 9_999, 10_000):
        (tmp_path / f"e.20261124T000000Z-{number}").write_bytes(b"%d" % number)
    file = opened(tmp_path, clock, rotate_bytes=2, keep=2)
    file.append([b"1"])
    file.append([b"2"])
    file.close()
    assert set(contents(tmp_path)) == {"e", "e.20261124T000000Z-10000", "e.20261124T000000Z-10001"}


def test_as_many_lines_as_fit_are_written_at_once(tmp_path: Path) -> None:
    """A line that alone is too large has a file of its own."""
    clock = ManualClock(EVENING)
    file = opened(tmp_path, clock, rotate_bytes=8)
    counts: list[int] = []
    lines = [b"1", b"2", b"3" * 20, b"4", b"55555", b"6"]
    while lines:
        counts.append(file.append(lines))
        del lines[: counts[-1]]
    file.close()
    assert counts == [2, 1, 2, 1]
    written = b"".join(
        contents(tmp_path)[name] for name in sorted(contents(tmp_path), key=lambda n: (n == "e", n))
    )
    assert written == b"1\n2\n" + b"3" * 20 + b"\n4\n55555\n6\n"


def test_a_failed_rotation_is_tried_again(tmp_path: Path) -> None:
    """Nothing is written beyond the size meanwhile, and no empty file is left."""
    clock = ManualClock(EVENING)
    folder = tmp_path / "folder"
    folder.mkdir()
    file = opened(folder, clock, rotate_bytes=2)
    file.append([b"{1}"])
    folder.rename(tmp_path / "away")
    with pytest.raises(OutputUnavailableError, match="there is no such folder"):
        file.append([b"{2}"])
    (tmp_path / "away").rename(folder)
    assert file.append([b"{2}"]) == 1
    file.close()
    assert contents(folder) == {"e": b"{2}\n", "e.20261122T235950Z-0000": b"{1}\n"}


def test_a_quiet_file_that_was_moved_away_is_made_again(tmp_path: Path) -> None:
    """A log shipper that waits for the next file need not wait for the next event."""
    file = opened(tmp_path, ManualClock(EVENING))
    file.append([b"1"])
    (tmp_path / "e").rename(tmp_path / "taken")
    file.examine()
    file.close()
    assert contents(tmp_path) == {"e": b"", "taken": b"1\n"}
