"""One store belongs to one daemon, by whatever path it is reached and whatever happens to it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog
from prometheus_client import CollectorRegistry

from monitor.bus.sqlite import SqliteBus
from monitor.bus.sqlite.location import locate
from monitor.model.errors import BusLockedError, BusLostError, BusUnavailableError
from tests.bus.examples import SOON, events, log_of
from tests.clocks import ManualClock


async def open_store(path: Path) -> SqliteBus:
    return await SqliteBus.open(path, clock=ManualClock(), registry=CollectorRegistry())


def link_to_the_file(folder: Path) -> Path:
    (folder / "link.db").symlink_to(folder / "real" / "state.db")
    return folder / "link.db"


def link_to_the_folder(folder: Path) -> Path:
    (folder / "link").symlink_to("real", target_is_directory=True)
    return folder / "link" / "state.db"


def link_to_a_link(folder: Path) -> Path:
    (folder / "near.db").symlink_to(link_to_the_folder(folder))
    return folder / "near.db"


LINKS = [link_to_the_file, link_to_the_folder, link_to_a_link]


@pytest.mark.parametrize("link", LINKS)
async def test_a_store_reached_by_links_is_the_same_store(
    tmp_path: Path, link: Callable[[Path], Path]
) -> None:
    """A second daemon by another path is refused and named the holder, in either order."""
    (tmp_path / "real").mkdir()
    path, other = tmp_path / "real" / "state.db", link(tmp_path)
    for first, second in ((path, other), (other, path)):
        bus = await open_store(first)
        with pytest.raises(BusLockedError, match=f"process {os.getpid()} since"):
            await open_store(second)
        await bus.close()

    # Side files stand beside the real file, wherever the link is.
    assert {file.name for file in (tmp_path / "real").iterdir()} == {"state.db", "state.db.lock"}


async def test_a_file_with_a_second_hard_link_is_refused(tmp_path: Path) -> None:
    """Two names of one file have two write-ahead logs; the refusal says what to do."""
    path, other = tmp_path / "state.db", tmp_path / "copy.db"
    await (await open_store(path)).close()
    other.hardlink_to(path)
    for name in (path, other):
        with pytest.raises(BusUnavailableError, match=r"has 2 hard links.* remove the others"):
            await open_store(name)
    other.unlink()

    await (await open_store(path)).close()


async def test_a_hard_link_made_later_opens_nothing(tmp_path: Path) -> None:
    """The holder goes on and warns of the link once, because its next start will refuse it."""
    path, other = tmp_path / "state.db", tmp_path / "copy.db"
    bus = await open_store(path)
    other.hardlink_to(path)
    with structlog.testing.capture_logs() as logged:
        for number in (1, 2):
            await bus.commit(events(number), timeout_seconds=SOON)
    with pytest.raises(BusUnavailableError, match="2 hard links"):
        await open_store(other)
    assert [line["event"] for line in logged] == ["store has a second hard link"]
    assert len(await log_of(bus)) == 2
    await bus.close()


async def test_a_removed_lock_file_opens_nothing(tmp_path: Path) -> None:
    """The store itself is locked too: without its lock file it is still refused."""
    path = tmp_path / "state.db"
    bus = await open_store(path)
    (tmp_path / "state.db.lock").unlink()
    with pytest.raises(BusLockedError, match="is held by another process"):
        await open_store(path)
    await bus.close()


async def test_a_lock_file_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """A user who may write the folder must not choose which file is emptied and locked."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "state.db.lock").symlink_to(victim)
    with pytest.raises(BusUnavailableError, match=r"state\.db\.lock is a symbolic link"):
        await open_store(tmp_path / "state.db")

    assert victim.read_text() == "precious"


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
async def test_a_path_that_is_no_file_is_refused(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    """A pipe or a folder in the place of the store is named, and never waited for."""
    make(tmp_path / "state.db")
    with pytest.raises(BusUnavailableError, match="is not a regular file"):
        await open_store(tmp_path / "state.db")


async def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    """A link that leads to itself is named in one sentence."""
    (tmp_path / "state.db").symlink_to(tmp_path / "state.db")
    with pytest.raises(BusUnavailableError, match="symbolic link"):
        await open_store(tmp_path / "state.db")


def mounted(folder: Path, *kinds: tuple[str, str]) -> Path:
    """Return a list of mounts as the kernel shows it: mount point and kind of file system."""
    lines = [
        f"36 35 98:0 / {point} rw,noatime shared:1 - {kind} /dev/source rw,errors=continue\n"
        for point, kind in kinds
    ]
    file = folder / "mountinfo"
    file.write_text("".join(lines))
    return file


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "fuse.glusterfs"]
)
def test_a_network_file_system_is_refused(tmp_path: Path, kind: str) -> None:
    """Its locks and shared memory do not hold between machines; the refusal names it."""
    folder = str(tmp_path / "on the net").replace(" ", r"\040")
    mounts = mounted(tmp_path, ("/", "ext4"), (folder, kind))
    with pytest.raises(BusUnavailableError, match=f"on a network file system .{kind}.*local disk"):
        locate(tmp_path / "on the net" / "deep" / "state.db", mounts=mounts)

    beside = tmp_path / "on the network" / "state.db"
    assert locate(beside, mounts=mounts) == beside


def test_the_nearest_mount_counts(tmp_path: Path) -> None:
    """A local disk mounted below a network share is local, and the newest mount hides others."""
    inner = tmp_path / "share" / "disk"
    mounts = mounted(
        tmp_path, (str(tmp_path / "share"), "nfs4"), (str(inner), "cifs"), (str(inner), "xfs")
    )

    assert locate(inner / "state.db", mounts=mounts) == inner / "state.db"


def delete(path: Path) -> None:
    path.unlink()


def move(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def replace(path: Path) -> None:
    other = path.with_name("other.db")
    other.write_bytes(path.read_bytes())
    other.replace(path)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def overwrite(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:8_192])


def delete_lock(path: Path) -> None:
    path.with_name("state.db.lock").unlink()


def replace_lock(path: Path) -> None:
    delete_lock(path)
    path.with_name("state.db.lock").touch()


def delete_log(path: Path) -> None:
    path.with_name("state.db-wal").unlink()


def delete_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


LOSSES = [
    delete,
    move,
    replace,
    empty,
    overwrite,
    delete_lock,
    replace_lock,
    delete_log,
    delete_folder,
]


@pytest.mark.parametrize("lose", LOSSES)
async def test_a_lost_store_acknowledges_nothing(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    """The first write after the loss raises, and so does every later one."""
    path = tmp_path / "made" / "state.db"
    bus = await open_store(path)
    await bus.commit(events(1), timeout_seconds=SOON)
    lose(path)
    for number in (2, 3):
        with pytest.raises(BusUnavailableError):
            await bus.commit(events(number), timeout_seconds=SOON)
    with pytest.raises(BusLostError):
        await bus.watch()
    await bus.close()


async def test_losses_are_noticed_without_a_write(tmp_path: Path) -> None:
    """A daemon in which nothing happens ends within seconds all the same, with one sentence."""
    paths = [tmp_path / lose.__name__ / "state.db" for lose in LOSSES]
    stores = [await open_store(path) for path in paths]
    watches = [asyncio.create_task(bus.watch()) for bus in stores]
    for lose, path in zip(LOSSES, paths, strict=True):
        lose(path)
    async with asyncio.timeout(SOON):
        ends = await asyncio.gather(*watches, return_exceptions=True)
    for bus in stores:
        await bus.close()

    assert [type(end) for end in ends] == [BusLostError] * len(LOSSES)
    assert all("while in use" in str(end) and "\n" not in str(end) for end in ends)


async def test_the_end_of_a_replaced_store_leaves_its_successor_alone(tmp_path: Path) -> None:
    """Closing deletes no write-ahead log that belongs to the file that stands there now."""
    path = tmp_path / "state.db"
    bus = await open_store(path)
    await bus.commit(events(1), timeout_seconds=SOON)
    for name in ("state.db", "state.db-wal", "state.db-shm", "state.db.lock"):
        (tmp_path / name).unlink()
    successor = await open_store(path)
    await successor.commit(events(2), timeout_seconds=SOON)
    with pytest.raises(BusLostError):
        await bus.watch()
    await bus.close()

    assert (tmp_path / "state.db-wal").stat().st_size > 0
    await successor.commit(events(3), timeout_seconds=SOON)
    assert [name for _, name in await log_of(successor)] == ["2", "3"]
    await successor.close()
