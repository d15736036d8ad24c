"""The store's folder is really tried, as the user that asks, and left as it was."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from monitor.bus.sqlite.store import SqliteBus
from monitor.cli.store_access import check_store_access, user_name
from monitor.model.clock import SystemClock
from tests.cli.doctor_scenario import run_checks, without_rights


def listing(folder: Path) -> dict[str, bytes]:
    """Return everything below a folder, with its content."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("folder", ["/proc", "/proc/deep/er", "/sys"])
async def test_a_folder_that_refuses_root_too_fails(tmp_path: Path, folder: str) -> None:
    """Access rights would allow it, the file system does not: only an attempt shows that."""
    path = Path(folder) / "dataprep-monitor" / "state.db"
    line = (await run_checks(tmp_path, store=path))["store"]
    assert (line.outcome, "cannot be written" in line.found) == ("failed", True), line
    assert "storage.url" in str(line.hint)


def test_a_trial_leaves_everything_as_it_was(tmp_path: Path) -> None:
    """Neither file nor folder stays, and a store that is there keeps its bytes."""
    (tmp_path / "old.db").write_bytes(b"the bytes of a store")
    before = listing(tmp_path)
    for store in ("new.db", "a/b/c/new.db", "old.db"):
        assert check_store_access(f"sqlite://{tmp_path / store}").problem is None, store
    assert listing(tmp_path) == before


async def test_a_store_in_use_is_not_touched(tmp_path: Path) -> None:
    """Its daemon shows that it can be written; the check names the process and opens nothing."""
    bus = await SqliteBus.open(
        tmp_path / "state.db", clock=SystemClock(), registry=CollectorRegistry()
    )
    before = os.stat(tmp_path).st_mtime_ns  # noqa: PTH116 - pathlib counts as blocking
    checked = check_store_access(f"sqlite://{tmp_path}/state.db")
    assert checked.problem is None
    assert str(checked.holder).startswith(f"process {os.getpid()} since")
    assert os.stat(tmp_path).st_mtime_ns == before  # noqa: PTH116 - as above
    await bus.close()


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", ".lock"])
def test_a_file_of_another_user_is_named(ending: str) -> None:
    """A store that was once run by root, say: the folder is ours and one of the files is not."""
    with tempfile.TemporaryDirectory() as name:
        folder, left = Path(name), Path(name) / f"state.db{ending}"
        left.touch(mode=0o000)
        folder.chmod(0o777)
        with without_rights():
            checked, user = check_store_access(f"sqlite://{folder}/state.db"), user_name()
    assert checked.problem is not None
    assert str(left) in checked.problem.found
    assert "Permission denied" in checked.problem.found
    assert f"user {user} lacks the right" in checked.problem.hint


def test_a_store_with_two_names_is_a_problem(tmp_path: Path) -> None:
    """A store that the daemon refuses at its start is reported before."""
    (tmp_path / "state.db").touch()
    (tmp_path / "other.db").hardlink_to(tmp_path / "state.db")
    checked = check_store_access(f"sqlite://{tmp_path}/state.db")
    assert checked.problem is not None
    assert "has 2 hard links" in checked.problem.found
    assert checked.problem.hint == "remove the others, or copy the file"


def test_a_disk_with_little_room_is_a_doubt(tmp_path: Path) -> None:
    """The write-ahead log needs room of its own; the daemon starts with less."""
    checked = check_store_access(f"sqlite://{tmp_path}/new/state.db", room_bytes=1 << 60)
    (doubt,) = checked.doubts
    assert "MiB are free" in doubt.found
    assert "make room" in doubt.hint
    assert listing(tmp_path) == {}


async def test_a_damaged_store_fails(tmp_path: Path) -> None:
    """A store that the daemon would refuse is not called usable; reading it makes no file."""
    path = tmp_path / "state.db"
    bus = await SqliteBus.open(path, clock=SystemClock(), registry=CollectorRegistry())
    await bus.close()
    sound = (await run_checks(tmp_path))["store"]
    assert (sound.outcome, "can write it" in sound.found) == ("ok", True), sound
    before = listing(tmp_path)
    for content in (b"no database" * 1000, before["state.db"][:4096] + b"x" * 100_000):
        path.write_bytes(content)
        line = (await run_checks(tmp_path))["store"]
        assert (line.outcome, "is damaged" in line.found) == ("failed", True), line
        assert "restore a backup" in str(line.hint)
    assert set(listing(tmp_path)) == set(before)


async def test_a_store_that_went_missing_is_a_doubt(tmp_path: Path) -> None:
    """Files that a former store has left are named before a daemon starts over."""
    (tmp_path / "state.db-wal").write_bytes(b"what was not yet in the store")
    line = (await run_checks(tmp_path))["store"]
    assert (line.outcome, "beside state.db-wal of a former store" in line.found) == (
        "warning",
        True,
    )
