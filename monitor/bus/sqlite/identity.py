"""The identity of a store's file: lets two programs compare their stores without a path."""

from __future__ import annotations

import hashlib
from pathlib import Path


def store_id(path: Path) -> str | None:
    """Return 16 hex digits of this very file, however it is named; None where there is none.

    Raises:
        OSError: this user may not see it.
    """
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return hashlib.sha256(f"{status.st_dev}:{status.st_ino}".encode()).hexdigest()[:16]
