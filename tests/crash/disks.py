"""Disks that can be full."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec import Struct

_DISK_KIBIBYTES = 24_000  # with room for the store and its log once it is given back
_ROOM_BYTES = 200_000  # what still fits on a disk that fills up


class Disk(Struct, frozen=True):
    """A place for the store that can be full."""

    path: Path
    fill: Callable[[int], None]  # with the id of the daemon's process
    free: Callable[[int], None]


@contextlib.contextmanager
def small_file_system(folder: Path) -> Iterator[Disk]:
    """A file system of a few megabytes, filled by another program's file."""
    place = folder / "disk"
    place.mkdir()
    mounting = ("mount", "-t", "tmpfs", "-o", f"size={_DISK_KIBIBYTES}k", "none", str(place))
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root may mount a small file system")
    if subprocess.run(mounting, check=False, capture_output=True).returncode != 0:
        pytest.skip("this machine does not allow mounting a small file system")
    filler = place / "filler"

    def fill(_: int) -> None:
        room = shutil.disk_usage(place).free - _ROOM_BYTES
        try:
            filler.write_bytes(bytes(max(room, 0)))
        except OSError as exc:
            # The daemon has written meanwhile, so the disk is full already.
            if exc.errno != errno.ENOSPC:
                raise

    try:
        yield Disk(place / "state.db", fill, lambda _: filler.unlink())
    finally:
        subprocess.run(("umount", str(place)), check=True)


@contextlib.contextmanager
def limited_file_size(folder: Path) -> Iterator[Disk]:
    """The kernel refuses the daemon to let a file grow, as a full disk does."""

    def limit(process_id: int, size: int) -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.prlimit(process_id, resource.RLIMIT_FSIZE, (size, hard))

    def fill(process_id: int) -> None:
        # Its log is a file too: neither can grow by another byte.
        limit(process_id, 1)

    path = folder / "state.db"
    yield Disk(
        path,
        fill,
        lambda process_id: limit(process_id, resource.RLIM_INFINITY),
    )
