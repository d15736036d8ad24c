"""The file of a store: taken, measured, and how long its commits take."""

from __future__ import annotations

import contextlib
from datetime import datetime
from pathlib import Path

from monitor.bus.sqlite.connection import connect_idle
from monitor.bus.sqlite.leftover_files import leftovers_beside, start_beside_leftovers
from monitor.bus.sqlite.location import locate
from monitor.bus.sqlite.lock import StoreLock
from monitor.bus.sqlite.soundness import refuse_surprises
from monitor.bus.sqlite.upgrade import prepare


def take(path: Path, now: datetime) -> StoreLock:
    """Take the file for this process, creating or upgrading it; raises as `SqliteBus.open` does."""
    leftovers = leftovers_beside(locate(path))
    lock = StoreLock(path, now=now)
    try:
        if leftovers:
            start_beside_leftovers(lock.store, leftovers, now=now)
        prepare(lock.store)
        lock.keep_open(anchor := connect_idle(lock.store))
        refuse_surprises(anchor, lock.store)
    except BaseException:
        lock.release()
        raise
    return lock


def store_bytes(path: Path) -> int:
    """Return the size of the file and its write-ahead log, which a clean close removes."""
    sizes = [path.stat().st_size]
    with contextlib.suppress(FileNotFoundError):
        sizes.append(path.with_name(f"{path.name}-wal").stat().st_size)
    return sum(sizes)
