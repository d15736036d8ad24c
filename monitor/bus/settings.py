"""Where the store is, how long a write may take, and how long things are kept."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

from msgspec import Struct

from monitor.bus.contract import Retention
from monitor.model.errors import ConfigurationError

_SCHEME = "sqlite://"
# A URL does not count these as part of a path; a path that has them is written with %3F, %23.
_NO_PATH = re.compile(r"[?#]")


class StorageSettings(Struct, frozen=True, kw_only=True):
    """The section ``[storage]``; its ``retention`` is a section of its own below it."""

    # One file, absolute: sqlite:// and then the path.
    url: str = "sqlite:///var/lib/dataprep-monitor/state.db"
    # How long a write may wait where its caller names no time of its own.
    commit_timeout_seconds: float = 10.0
    # How long a read may take before it is interrupted.
    read_timeout_seconds: float = 30.0
    # A transaction that has begun is awaited this much longer than its caller's timeout; then the
    # disk counts as hung and the daemon ends, because a half-dead store must not count as alive.
    stall_seconds: float = 30.0
    # Writes that may wait at a time; one more is refused at once.
    queue_bound: int = 10_000
    # How often retention is applied.
    prune_seconds: float = 60.0
    retention: Retention = Retention()


def store_path(url: str) -> Path:
    """Return the file that a ``sqlite:///`` URL names.

    Raises:
        ConfigurationError: another scheme, or no absolute path.
    """
    path = unquote(url.removeprefix(_SCHEME))
    if not (url.startswith(_SCHEME + "/") and path.strip("/") and path.isprintable()) or (
        _NO_PATH.search(url) is not None
    ):
        problem = f"storage.url is {url!r}; it must be sqlite:// followed by an absolute path"
        raise ConfigurationError(problem)
    return Path(path)
