"""One daemon for one store: the kernel holds the locks and lets go of them whatever happens."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from datetime import datetime
from pathlib import Path
from sqlite3 import Connection

import structlog

from monitor.bus.sqlite.connection import connect_idle
from monitor.bus.sqlite.leftover_files import leftovers_beside, start_beside_leftovers
from monitor.bus.sqlite.location import locate, refuse_hard_links
from monitor.bus.sqlite.soundness import refuse_surprises
from monitor.bus.sqlite.upgrade import prepare
from monitor.model.errors import BusLockedError, BusLostError, BusUnavailableError

log = structlog.get_logger()

_OWNER_ONLY = 0o600
_OWNER_ONLY_FOLDER = 0o700
_HOLDER_BYTES = 200
# The write-ahead log alone takes four times as much before it is written back.
_LEAST_FREE_BYTES = 1024 * 1024
_NAMELESS = "another process"


class StoreLock:
    """Holds the store from construction until `release`, or until the process is gone.

    Two locks: the one on the store itself holds by whatever path it is reached; the one on
    ``<file>.lock`` beside it names the holder, and keeps a file that is put in the store's place
    from being opened beside the write-ahead log of the former one. Makes folder and files where
    there are none. The lock file is never removed: a process that had just opened the old one would
    hold a lock on nothing.

    Raises:
        BusLockedError: another process holds it; the message names the process.
        BusUnavailableError: the files cannot be made, or no store may be there.
    """

    def __init__(self, store: Path, *, now: datetime) -> None:
        self.store = locate(store)
        self._descriptors: list[int] = []
        self._inodes: dict[Path, os.stat_result] = {}
        self._anchor: Connection | None = None
        self._has_links = False
        self._store_bytes = 0
        try:
            self._acquire(now)
        except OSError as exc:
            self.release()
            raise BusUnavailableError(f"{self.store} cannot be opened: {exc.strerror}") from exc
        except BaseException:
            self.release()
            raise

    def keep_open(self, anchor: Connection) -> None:
        """Own a connection until `release`.

        While it is open, the write-ahead log and its index are the same files, so that `verify`
        can tell when they were deleted.
        """
        self._anchor = anchor
        self._store_bytes = self.store.stat().st_size
        for suffix in ("-wal", "-shm"):
            path = self.store.with_name(self.store.name + suffix)
            try:
                self._inodes[path] = path.lstat()
            except OSError as exc:
                raise BusUnavailableError(f"{path} cannot be made: {exc.strerror}") from exc

    def verify(self) -> None:
        """Return while store, side files and lock are at their paths. Takes some microseconds.

        Raises:
            BusLostError: one was deleted, moved, replaced or overwritten.
        """
        # Before the look: the writer and the watch call this at the same time.
        least_bytes = self._store_bytes
        for path, held in self._inodes.items():
            try:
                present = os.lstat(path)
            except (FileNotFoundError, NotADirectoryError) as exc:
                raise BusLostError(f"{path} was deleted or moved away while in use") from exc
            except OSError:
                continue  # not to be seen now; whether it can be written, the next commit shows
            if not os.path.samestat(held, present):
                raise BusLostError(f"{path} was replaced by another file while in use")
            if path == self.store:
                self._verify_store(present, least_bytes)

    def _verify_store(self, present: os.stat_result, least_bytes: int) -> None:
        # We only ever let it grow. Who overwrites it in place cuts it off first.
        if present.st_size < least_bytes:
            raise BusLostError(f"{self.store} was emptied, overwritten or shrunk while in use")
        self._store_bytes = max(self._store_bytes, present.st_size)
        if present.st_nlink > 1 and not self._has_links:
            # No daemon can open it through the link, nor can this one at its next start.
            log.warning("store has a second hard link", store=str(self.store))
        self._has_links = present.st_nlink > 1

    def store_bytes(self) -> int:
        """Return the size of the file and its write-ahead log, which a clean close removes."""
        sizes = [self.store.stat().st_size]
        with contextlib.suppress(FileNotFoundError):
            sizes.append(self.store.with_name(f"{self.store.name}-wal").stat().st_size)
        return sum(sizes)

    def release(self) -> None:
        """Let others have the store, once every other connection to it is closed.

        The order matters: closing any descriptor of a file drops all locks that SQLite holds on it
        in this process.
        """
        if self._anchor is not None:
            self._anchor.close()
            self._anchor = None
        while self._descriptors:
            os.close(self._descriptors.pop())

    def _acquire(self, now: datetime) -> None:
        self.store.parent.mkdir(mode=_OWNER_ONLY_FOLDER, parents=True, exist_ok=True)
        refuse_full_disk(self.store)
        beside = self._open(_lock_file(self.store))
        if not _is_locked_by_us(beside):
            raise BusLockedError(f"the store {self.store} is held by {_name_in(beside)}")
        os.ftruncate(beside, 0)
        os.pwrite(beside, f"{os.getpid()} {now.isoformat()}\n".encode(), 0)
        store = self._open(self.store)
        refuse_hard_links(self.store, os.fstat(store))
        if not _is_locked_by_us(store):
            raise BusLockedError(f"the store {self.store} is held by {_NAMELESS}")

    def _open(self, path: Path) -> int:
        if path.is_symlink():
            raise BusUnavailableError(f"{path} is a symbolic link: remove it")
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, _OWNER_ONLY)
        self._descriptors.append(descriptor)
        self._inodes[path] = os.fstat(descriptor)
        return descriptor


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


def holder_of(store: Path) -> str | None:
    """Return who holds the store, None without a holder. Makes and changes nothing.

    Raises:
        BusUnavailableError: the lock file is there and may not be read.
    """
    lock_file = _lock_file(Path(os.path.realpath(store)))
    try:
        descriptor = os.open(lock_file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except OSError as exc:
        if exc.errno == errno.ELOOP:
            raise BusUnavailableError(f"{lock_file} is a symbolic link: remove it") from exc
        raise BusUnavailableError(f"{lock_file} cannot be read: {exc.strerror}") from exc
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


def refuse_full_disk(store: Path) -> None:
    """Return where there is room in the folder of the store.

    Raises:
        BusUnavailableError: it could be opened and not be written; the daemon would be half alive.
    """
    disk = os.statvfs(store.parent)
    free_bytes = disk.f_bavail * disk.f_frsize
    if disk.f_blocks and free_bytes < _LEAST_FREE_BYTES:
        raise BusUnavailableError(
            f"the disk of {store} is full: {free_bytes:,} bytes are free, and the daemon needs "
            f"{_LEAST_FREE_BYTES:,} to start: make room"
        )


def _is_locked_by_us(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _name_in(descriptor: int) -> str:
    holder = os.pread(descriptor, _HOLDER_BYTES, 0).decode(errors="replace").split()
    # The holder writes its name just after taking the lock; it may not be there yet.
    return f"process {holder[0]} since {holder[1]}" if len(holder) > 1 else _NAMELESS
