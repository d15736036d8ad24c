"""Finds where a store really is, and refuses places where none may be."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from monitor.model.errors import BusUnavailableError

_MOUNTS = Path("/proc/self/mountinfo")
# Between machines, locks and the shared memory of the write-ahead log do not hold there.
_NETWORK = re.compile(
    r"nfs4?|cifs|smb[23]|smbfs|9p|afs|ceph|coda|davfs|glusterfs|lustre|beegfs|ncpfs"
    r"|fuse\.(sshfs|ceph|glusterfs|davfs2?|rclone|s3fs|gcsfuse|juicefs|nfs|smbnetfs)"
)
_ESCAPED = re.compile(r"\\([0-7]{3})")


def locate(store: Path, *, mounts: Path = _MOUNTS) -> Path:
    """Return the path of the file itself: links of the file and of its folders are followed.

    Raises:
        BusUnavailableError: it is no regular file, or on a network file system.
    """
    real = Path(os.path.realpath(store))
    try:
        mode = real.lstat().st_mode
    except FileNotFoundError:
        pass  # to be made
    except OSError as exc:
        raise BusUnavailableError(f"{real} cannot be opened: {exc.strerror}") from exc
    else:
        if stat.S_ISLNK(mode):
            raise BusUnavailableError(f"{store} is a symbolic link that leads nowhere: remove it")
        if not stat.S_ISREG(mode):
            raise BusUnavailableError(f"{store} is not a regular file: choose another path")
    if _NETWORK.fullmatch(kind := _file_system(real, mounts)):
        raise BusUnavailableError(
            f"{store} is on a network file system ({kind}), on which two daemons could open it "
            "at once: choose a path on a local disk"
        )
    return real


def refuse_hard_links(store: Path, status: os.stat_result) -> None:
    """Return for a file with one name.

    Raises:
        BusUnavailableError: it has several.
    """
    if status.st_nlink > 1:
        raise BusUnavailableError(
            f"the store {store} has {status.st_nlink} hard links, and a program that opens it by "
            "another one would miss its newest changes: remove the others, or copy the file"
        )


def _file_system(real: Path, mounts: Path) -> str:
    """Return the kind of the file system that has the path; empty where no list shows it."""
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ""  # not Linux
    kind, deepest = "", -1
    for line in lines:
        left, _, right = line.partition(" - ")
        point = Path(_ESCAPED.sub(lambda match: chr(int(match[1], 8)), left.split()[4]))
        # Of mounts on one point the last hides the others.
        if len(point.parts) >= deepest and real.is_relative_to(point):
            kind, deepest = right.split()[0], len(point.parts)
    return kind
