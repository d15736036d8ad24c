"""Checks whether a daemon of this user could use the store: tries it, and leaves nothing.

Access rights alone do not say it: a read-only file system, an immutable folder, a quota or a full
disk refuse root too.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from monitor.bus.settings import store_path
from monitor.bus.sqlite.leftover_files import leftovers_beside
from monitor.bus.sqlite.location import locate, refuse_hard_links
from monitor.bus.sqlite.lock import holder_of, refuse_full_disk
from monitor.config import Problem
from monitor.config.problems import shown
from monitor.model.errors import BusUnavailableError

# The write-ahead log alone is cut back only above this size.
ROOM_BYTES = 64 * 1024 * 1024
_MEBIBYTE = 1024 * 1024
_PAGE = bytes(4096)
_OWNER_ONLY_FOLDER = 0o700
# SQLite's files beside the store, which a daemon of another user may have left.
_SIDE_FILES = ("", "-wal", "-shm", ".lock")
_ELSEWHERE = "name another file in storage.url"


class StoreProblem(Struct, frozen=True, kw_only=True):
    """Why the store cannot be used, and what to do."""

    found: str
    hint: str


class StoreAccess(Struct, frozen=True, kw_only=True):
    """The result of a check. A store that a daemon holds is not tried."""

    path: Path
    holder: str | None = None
    problem: StoreProblem | None = None
    doubts: tuple[StoreProblem, ...] = ()  # it can be used, but


def check_store_access(url: str, *, room_bytes: int = ROOM_BYTES) -> StoreAccess:
    """Try to write where the store is or would be."""
    named = store_path(url)
    try:
        path = locate(named)
        holder = holder_of(path) if path.parent.is_dir() else None
        if holder is not None:
            return StoreAccess(path=path, holder=holder)
        if path.exists():
            refuse_hard_links(path, path.stat())
        problem = _problem_of_files(path)
        if problem is not None:
            return StoreAccess(path=path, problem=problem)
        free_bytes = _write_beside(path)
    except BusUnavailableError as exc:
        return StoreAccess(path=named, problem=_of_the_bus(exc))
    except OSError as exc:
        return StoreAccess(path=named, problem=_refused(_place(exc, named), exc))
    doubts = _doubts(path, free_bytes=free_bytes, room_bytes=room_bytes)
    return StoreAccess(path=path, doubts=doubts)


def as_problem(url: str, found: StoreProblem) -> Problem:
    """Return what ``check`` and ``run`` say of it."""
    return Problem(key="storage.url", value=shown(url), hint=f"{found.found}; {found.hint}")


def user_name() -> str:
    """Return the user who tries."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _problem_of_files(path: Path) -> StoreProblem | None:
    for ending in _SIDE_FILES:
        file = path.with_name(f"{path.name}{ending}")
        try:
            os.close(os.open(file, os.O_RDWR | os.O_CLOEXEC))
        except FileNotFoundError:
            continue
        except OSError as exc:
            return _refused(file, exc)
    return None


def _write_beside(path: Path) -> int:
    """Write and sync a file in the folder of the store, and return how many bytes are free."""
    with _made(path.parent), tempfile.TemporaryFile(dir=path.parent) as file:
        file.write(_PAGE)
        file.flush()
        os.fsync(file.fileno())
        refuse_full_disk(path)
        return shutil.disk_usage(path.parent).free


def _doubts(path: Path, *, free_bytes: int, room_bytes: int) -> tuple[StoreProblem, ...]:
    doubts: list[StoreProblem] = []
    if free_bytes < room_bytes:
        found = f"only {free_bytes // _MEBIBYTE} MiB are free in {path.parent}"
        doubts.append(StoreProblem(found=found, hint="make room; a full disk stops the monitor"))
    if leftovers := leftovers_beside(path):
        names = ", ".join(leftover.name for leftover in leftovers)
        found = f"{path} is missing or empty beside {names} of a former store"
        doubts.append(StoreProblem(found=found, hint="put the former store back, or start over"))
    return tuple(doubts)


@contextlib.contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make the folder and those above it that are missing, and remove them afterwards."""
    missing = [above for above in (folder, *folder.parents) if not above.exists()]
    made: list[Path] = []
    try:
        for above in reversed(missing):
            above.mkdir(mode=_OWNER_ONLY_FOLDER)
            made.insert(0, above)
        yield
    finally:
        # A daemon that starts right now may have put its store there already.
        with contextlib.suppress(OSError):
            for above in made:
                above.rmdir()


def _place(exc: OSError, store: Path) -> Path:
    """Return what could not be written: a folder, or the one of the temporary file."""
    place = Path(exc.filename or store.parent)
    # The name of that file means nothing.
    return store.parent if place.parent == store.parent else place


def _refused(place: Path, exc: OSError) -> StoreProblem:
    return StoreProblem(found=f"{place} cannot be written: {exc.strerror}", hint=_hint(exc))


def _of_the_bus(exc: BusUnavailableError) -> StoreProblem:
    if isinstance(exc.__cause__, OSError):
        return StoreProblem(found=str(exc), hint=_hint(exc.__cause__))
    # Its sentence ends with the hint.
    found, _, hint = str(exc).rpartition(": ")
    return StoreProblem(found=found, hint=hint)


def _hint(exc: OSError) -> str:
    hints = {
        errno.EROFS: f"mount it for writing, or {_ELSEWHERE}",
        errno.ENOSPC: f"make room there, or {_ELSEWHERE}",
        errno.EDQUOT: f"make room there, or {_ELSEWHERE}",
        errno.EACCES: _right_of_user(),
        errno.EPERM: _right_of_user(),
    }
    return hints.get(exc.errno or 0, _ELSEWHERE)


def _right_of_user() -> str:
    user = user_name()
    return f"user {user} lacks the right: run it as one who may write there, or {_ELSEWHERE}"
