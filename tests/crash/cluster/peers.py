"""Which process is at the other end of a connection: daemons with one configuration look alike."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path


def process_of(port: int, *, to: int, process_ids: Iterable[int]) -> int | None:
    """Return which process connected from one port to another; None if it has ended meanwhile."""
    sockets = {f"socket:[{inode}]" for inode in _inodes(port, to)}
    for process_id in process_ids:
        if sockets & set(_handles(process_id)):
            return process_id
    return None


def _handles(process_id: int) -> Iterator[str]:
    with contextlib.suppress(FileNotFoundError):  # it has ended
        for handle in Path(f"/proc/{process_id}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed just now
                yield str(handle.readlink())


def _inodes(port: int, to: int) -> set[str]:
    # A port may be used for several connections, each to another one.
    ends = [f"0100007F:{number:04X}" for number in (port, to)]
    rows = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return {fields[9] for fields in map(str.split, rows) if fields[1:3] == ends}
