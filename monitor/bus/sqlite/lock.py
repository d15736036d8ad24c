"""One daemon for one file: the kernel holds the lock and lets go of it whatever happens."""

from __future__ import annotations

import fcntl
import os
from datetime import datetime
from pathlib import Path

from monitor.model.errors import BusLockedError, BusUnavailableError

_OWNER_ONLY = 0o600
_OWNER_ONLY_FOLDER = 0o700
_HOLDER_BYTES = 200


class StoreLock:
    """Holds ``<file>.lock`` from construction until `release`, or until the process is gone.

    Makes the folder where there is none. The lock file is never removed: whoever had just opened
    the old one would hold a lock on nothing.

    Raises:
        BusLockedError: somebody holds it; the message names the process.
        BusUnavailableError: the lock file cannot be made.
    """

    def __init__(self, store: Path, *, now: datetime) -> None:
        path = _lock_file(store)
        try:
            path.parent.mkdir(mode=_OWNER_ONLY_FOLDER, parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _OWNER_ONLY)
        except OSError as exc:
            raise BusUnavailableError(f"{path} cannot be made: {exc.strerror}") from exc
        try:
            self._acquire(store, now)
        except BaseException:
            os.close(self._descriptor)
            raise

    def release(self) -> None:
        os.close(self._descriptor)

    def _acquire(self, store: Path, now: datetime) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            who = _name_in(self._descriptor)
            raise BusLockedError(f"the store {store} is held by {who}") from exc
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()} {now.isoformat()}\n".encode(), 0)


def holder_of(store: Path) -> str | None:
    """Return who holds the store, None where nobody does. Makes and changes nothing.

    Raises:
        BusUnavailableError: the lock file is there and may not be read.
    """
    try:
        descriptor = os.open(_lock_file(store), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise BusUnavailableError(f"{_lock_file(store)} cannot be read: {exc.strerror}") from exc
    try:
        # Shared, so that two checks do not mistake each other for the holder.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _name_in(descriptor)
    else:
        return None
    finally:
        os.close(descriptor)


def _lock_file(store: Path) -> Path:
    return store.with_name(f"{store.name}.lock")


def _name_in(descriptor: int) -> str:
    holder = os.pread(descriptor, _HOLDER_BYTES, 0).decode(errors="replace").split()
    # The holder writes its name just after taking the lock; it may not be there yet.
    return f"process {holder[0]} since {holder[1]}" if len(holder) > 1 else "another process"
