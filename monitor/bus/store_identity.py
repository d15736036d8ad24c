"""The identity of a daemon's store: lets two programs compare theirs without a place."""

from __future__ import annotations

import hashlib

from monitor.bus.settings import StorageSettings, store_path
from monitor.bus.sqlite.identity import store_id


def store_identity(settings: StorageSettings) -> str | None:
    """Return 16 hex digits of this very store; None of a file that there is not yet.

    Raises:
        OSError: this user may not see the file.
    """
    if (address := settings.postgres) is None:
        return store_id(store_path(settings.url))
    place = (*sorted(map(str, address.hosts)), address.database)
    return hashlib.sha256("\0".join(place).encode()).hexdigest()[:16]


def store_place(settings: StorageSettings) -> str:
    """Return where the store is, for people: a path, or servers and database."""
    return str(settings.postgres or store_path(settings.url))
