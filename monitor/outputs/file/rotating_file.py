"""A file of lines that is rotated, survives crashes, and may be moved away. For worker threads.

A line is in the file once and whole, or not at all, when `append` returns or raises. A crash may
leave the beginning of a last line; the next opening removes it, so that no line follows it there.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import structlog

from monitor.model.errors import OutputUnavailableError
from monitor.model.lease_check import LEASE_UNCERTAIN, MaySend
from monitor.outputs.cloudevents import PAYLOAD_BYTES_LIMIT
from monitor.outputs.file.path_checks import demand_lines, describe
from monitor.outputs.file.settings import FileSettings

log = structlog.get_logger()

_BEGINNING = b'{"specversion":'  # of each of our lines
_MODE = 0o640  # shippers read by their group
# Not waiting for a reader, should the path be a pipe.
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class RotatingFile:
    """The present file and those that were rotated, ``NAME.20261122T235959Z-0000`` and later."""

    def __init__(
        self, settings: FileSettings, *, now: Callable[[], datetime], may_write: MaySend
    ) -> None:
        """``may_write`` is asked, in the thread, right before lines are written."""
        self._settings = settings
        self._may_write = may_write
        self._path = Path(settings.path)
        self._rotated_name = re.compile(re.escape(self._path.name) + r"\.(\d{8}T\d{6}Z)-(\d{4,})")
        self._now = now
        self._file: int | None = None
        self._written_at = now()  # the last line of the present file

    def append(self, lines: Sequence[bytes]) -> int:
        """Write the first of these lines, as many as go into one file, and return how many.

        They are durable on return. Lines have no line end here.

        Raises:
            OutputUnavailableError: none of them was written; the reason has a hint.
        """
        try:
            return self._append(lines)
        except OSError as exc:
            self.close()
            raise OutputUnavailableError(describe(exc)) from exc

    def examine(self) -> None:
        """Open the file where it is, again if it was moved away, and rotate it if its time is over.

        Raises:
            OutputUnavailableError: nothing could be written now.
        """
        try:
            if self._is_over(self._open()):
                self._rotate()
                self._open()
        except OSError as exc:
            self.close()
            raise OutputUnavailableError(describe(exc)) from exc

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _append(self, lines: Sequence[bytes]) -> int:
        file = self._open()
        size = os.fstat(file).st_size
        if self._is_over(file) or (size and self._is_too_much(size + len(lines[0]) + 1)):
            self._rotate()
            file, size = self._open(), 0
        count, end = 1, size + len(lines[0]) + 1
        while count < len(lines) and not self._is_too_much(end + len(lines[count]) + 1):
            end += len(lines[count]) + 1
            count += 1
        if not self._may_write():
            raise OutputUnavailableError(LEASE_UNCERTAIN)
        _write(file, b"".join(line + b"\n" for line in lines[:count]), size=size)
        if os.fstat(file).st_nlink == 0:
            raise OSError(errno.ESTALE, "")
        self._written_at = self._now()
        return count

    # --- opening ---

    def _open(self) -> int:
        """Return the file that is now at the path, whole up to its last line."""
        if self._file is not None:
            if _is_at(self._path, self._file):
                return self._file
            log.info("file was moved away and is opened again", path=str(self._path))
            self.close()
        file = os.open(self._path, _FLAGS, _MODE)
        try:
            self._take(file)
        except OSError:
            os.close(file)
            raise
        self._file = file
        return file

    def _take(self, file: int) -> None:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        demand_lines(os.pread(file, 1, 0))
        self._heal(file, status.st_size)
        _make_durable(self._path.parent)
        self._written_at = datetime.fromtimestamp(status.st_mtime, UTC)

    def _heal(self, file: int, size: int) -> None:
        """Remove what a crash left of a last line; end one that is whole, or another writer's."""
        tail_bytes = min(size, PAYLOAD_BYTES_LIMIT + 1)
        tail = os.pread(file, tail_bytes, size - tail_bytes)
        if not tail or tail.endswith(b"\n"):
            return
        rest = tail[tail.rfind(b"\n") + 1 :]
        is_ours = rest.startswith(_BEGINNING) or _BEGINNING.startswith(rest)
        is_cut = is_ours and not _is_json(rest)
        log.warning("last line is incomplete", path=str(self._path), removed=is_cut)
        if is_cut:
            # Its event was not acknowledged and comes again.
            os.ftruncate(file, size - len(rest))
        else:
            _write(file, b"\n", size=size)

    # --- rotation ---

    def _is_too_much(self, size: int) -> bool:
        return 0 < self._settings.rotate_bytes < size

    def _is_over(self, file: int) -> bool:
        """True where the last line belongs to a former period; an empty file has none."""
        seconds = self._settings.rotate_seconds
        if not seconds or not os.fstat(file).st_size:
            return False
        return self._now().timestamp() // seconds > self._written_at.timestamp() // seconds

    def _rotate(self) -> None:
        target = self._path.with_name(self._next_name())
        # Reserved first, because a rename would overwrite what another program puts there.
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, _MODE))
        try:
            self._path.rename(target)
        except OSError:
            target.unlink()
            raise
        self.close()
        _make_durable(self._path.parent)
        log.info("file rotated", path=str(target))
        for name in self._rotated()[: -self._settings.keep]:
            try:
                self._path.with_name(name).unlink(missing_ok=True)
            except OSError as exc:
                log.warning("old file not removed", file=name, reason=exc.strerror)

    def _next_name(self) -> str:
        """Return a name that sorts after all rotated files, also if the clock was set back."""
        stamp, number = f"{self._now():%Y%m%dT%H%M%SZ}", 0
        if newest := self._rotated()[-1:]:
            former = self._rotated_name.fullmatch(newest[0])
            if former is not None and former[1] >= stamp:
                stamp, number = former[1], int(former[2]) + 1
        return f"{self._path.name}.{stamp}-{number:04d}"

    def _rotated(self) -> list[str]:
        """Return the names of rotated files, oldest first."""
        rotated = [
            (name[1], int(name[2]), name[0])
            for place in self._path.parent.iterdir()
            if (name := self._rotated_name.fullmatch(place.name)) is not None
        ]
        # By number: as texts, 10000 would stand before 9999.
        return [name for _, _, name in sorted(rotated)]


def _write(file: int, block: bytes, *, size: int) -> None:
    """Append a block durably, or leave the file at its size."""
    rest = memoryview(block)
    try:
        while rest:
            rest = rest[os.write(file, rest) :]
        os.fsync(file)
    except OSError:
        # What a full disk took of it must not stand before the next attempt. Should that fail,
        # too, the next opening heals it.
        with contextlib.suppress(OSError):
            os.ftruncate(file, size)
        raise


def _is_json(text: bytes) -> bool:
    """True for a line that lacks its end only; it may have been acknowledged."""
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return True


def _is_at(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(file))
    except FileNotFoundError:
        return False


def _make_durable(folder: Path) -> None:
    """Let names of new and renamed files survive a power failure."""
    file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
