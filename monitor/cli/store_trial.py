"""Whether a daemon of this user could use the store: really tried, with nothing left behind.

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
from monitor.bus.sqlite.location import locate, refuse_hard_links
from monitor.bus.sqlite.lock import holder_of
from monitor.config import Problem
from monitor.config.problems import shown
from monitor.model.errors import BusUnavailableError

# The write-ahead log alone is cut back only above this size.
ROOM_BYTES = 64 * 1024 * 1024
_MEBIBYTE = 1024 * 1024
_PAGE = bytes(4096)
_OWNER_ONLY_FOLDER = 0o700
# SQLite's files beside the store, which a daemon of another user may have left behind.
_SIDE_FILES = ("", "-wal", "-shm", ".lock")
_ELSEWHERE = "name another file in storage.url"


class StoreProblem(Struct, frozen=True, kw_only=True):
    """Why the store cannot be used, and what to do."""

    found: str
    hint: str


class StoreTrial(Struct, frozen=True, kw_only=True):
    """What a trial found. A store that a daemon holds is not tried."""

    path: Path
    holder: str | None = None
    problem: StoreProblem | None = None
    exists: bool = False


def try_store(url: str, *, room_bytes: int = ROOM_BYTES) -> StoreTrial:
    """Try to write where the store is or would be."""
    named = store_path(url)
    try:
        path = locate(named)
        holder = holder_of(path) if path.parent.is_dir() else None
        if holder is not None:
            return StoreTrial(path=path, holder=holder, exists=True)
        exists = path.exists()
        if exists:
            refuse_hard_links(path, path.stat())
    except BusUnavailableError as exc:
        return StoreTrial(path=named, problem=_of_the_bus(exc))
    except OSError as exc:
        return StoreTrial(path=named, problem=_refused(f"{named} cannot be seen", exc))
    problem = _problem_of_files(path) or _problem_of_folder(path.parent, room_bytes)
    return StoreTrial(path=path, problem=problem, exists=exists)


def store_problem(url: str) -> Problem | None:
    """Return why no daemon of this user could open the store; None where one can, or has it."""
    problem = try_store(url).problem
    if problem is None:
        return None
    return Problem(key="storage.url", value=shown(url), hint=f"{problem.found}; {problem.hint}")


def user_name() -> str:
    """Return the user who tries."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"user {os.geteuid()}"


def _problem_of_files(path: Path) -> StoreProblem | None:
    for ending in _SIDE_FILES:
        file = path.with_name(f"{path.name}{ending}")
        try:
            os.close(os.open(file, os.O_RDWR | os.O_CLOEXEC))
        except FileNotFoundError:
            continue
        except OSError as exc:
            return _refused(f"{file} cannot be written", exc)
    return None


def _problem_of_folder(folder: Path, room_bytes: int) -> StoreProblem | None:
    try:
        with _made(folder):
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(_PAGE)
                file.flush()
                os.fsync(file.fileno())
            room = shutil.disk_usage(folder).free
    except OSError as exc:
        place = Path(exc.filename or folder)
        # The name of the temporary file says nothing to anybody.
        place = folder if place.parent == folder else place
        return _refused(f"{place} cannot be written", exc)
    if room >= room_bytes:
        return None
    return StoreProblem(
        found=f"{folder} has room for {room // _MEBIBYTE} MiB, "
        f"which is less than {room_bytes // _MEBIBYTE} MiB",
        hint=f"make room there, or {_ELSEWHERE}",
    )


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


def _refused(what: str, exc: OSError) -> StoreProblem:
    return StoreProblem(found=f"{what}: {exc.strerror}", hint=_hint(exc))


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
    return f"run it as a user who may write there, which {user_name()} may not, or {_ELSEWHERE}"
