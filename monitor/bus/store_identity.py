"""The identity of a daemon's store: lets two programs compare theirs without a place."""

from __future__ import annotations

import hashlib
from pathlib import Path

from monitor.bus.settings import StorageSettings, store_path


def store_identity(settings: StorageSettings) -> str | None:
    """Return 16 hex digits of this very store; None of a file that there is not yet.

    Raises:
        OSError: this user may not see the file.
    """
    if (address := settings.postgres) is None:
        return _file_identity(store_path(settings.url))
    place = (*sorted(map(str, address.hosts)), address.database)
    return hashlib.sha256("\0".join(place).encode()).hexdigest()[:16]


def store_place(settings: StorageSettings) -> str:
    """Return where the store is, for people: a path, or servers and database."""
    return str(settings.postgres or store_path(settings.url))


def _file_identity(path: Path) -> str | None:
    """Return 16 hex digits of this very file, however it is named; None where there is none.

    Raises:
        OSError: this user may not see it.
    """
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return hashlib.sha256(f"{status.st_dev}:{status.st_ino}".encode()).hexdigest()[:16]
