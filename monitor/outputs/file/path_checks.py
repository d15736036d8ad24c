"""Checks whether a file can be written, and says what to do if not."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_LONGEST_ENDING = ".20261122T235959Z-000000"  # of a rotated file

_SENTENCES = {
    errno.ENOENT: "there is no such folder; create it, with the right to write for the daemon",
    errno.ENOTDIR: "a part of the path is no folder; name another path",
    errno.EACCES: "the right to write is missing; give file and folder to the daemon's user",
    errno.EPERM: "the right to write is missing; give file and folder to the daemon's user",
    errno.EISDIR: "is a folder; name a file in it",
    errno.ELOOP: "is a symbolic link; name the file that it leads to",
    errno.EWOULDBLOCK: "another process writes it; give each daemon a file of its own",
    errno.EROFS: "the file system is mounted read-only; mount it for writing, or name another path",
    errno.ENOSPC: "the disk is full; free space",
    errno.EDQUOT: "the quota of the daemon's user is used up; raise it, or free space",
    errno.EFBIG: "the file may not grow; raise the limit, or lower rotate_bytes",
    errno.ENAMETOOLONG: "the name is too long, with that of a rotated file; name a shorter one",
    errno.ESTALE: "was removed while it was written; let the log shipper move it instead",
    errno.EINVAL: "is no regular file; name one",
    errno.EEXIST: "holds something else than lines of JSON; name another path",
}


def describe(error: OSError) -> str:
    """Return the problem and, after a semicolon, the hint."""
    reason = error.strerror or type(error).__name__
    return _SENTENCES.get(error.errno or 0, f"{reason}; name another path")


def path_problem(path: Path) -> str | None:
    """Return what keeps a file from being written as `describe`; changes nothing.

    Judged for the user that runs this.
    """
    try:
        _try(path)
    except OSError as exc:
        return describe(exc)
    return None


def _try(path: Path) -> None:
    if not path.parent.is_dir():
        raise OSError(errno.ENOTDIR if path.parent.exists() else errno.ENOENT, "")
    name_bytes = len(os.fsencode(path.name)) + len(_LONGEST_ENDING)
    if name_bytes > os.pathconf(path.parent, "PC_NAME_MAX"):
        raise OSError(errno.ENAMETOOLONG, "")
    if path.is_symlink():
        raise OSError(errno.ELOOP, "")
    if path.is_dir():
        raise OSError(errno.EISDIR, "")
    if path.exists():
        if not stat.S_ISREG(path.stat().st_mode):
            raise OSError(errno.EINVAL, "")
        _demand(path, os.R_OK | os.W_OK)
        with path.open("rb") as file:
            demand_lines(file.read(1))
    # Rotation renames, so the folder must be written too.
    _demand(path.parent, os.W_OK | os.X_OK)
    space = os.statvfs(path.parent)
    # Some network file systems report no size at all.
    if space.f_blocks and not space.f_bavail:
        raise OSError(errno.ENOSPC, "")


def demand_lines(beginning: bytes) -> None:
    """Refuse a file that begins otherwise: a configuration, a store, a secret.

    Raises:
        OSError: with EEXIST.
    """
    if beginning not in (b"", b"{"):
        raise OSError(errno.EEXIST, "")


def _demand(path: Path, rights: int) -> None:
    if not os.access(path, rights, effective_ids=True):
        raise OSError(errno.EACCES, "")
