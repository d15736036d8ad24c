"""Where the store is, how long a write may take, and how long things are kept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote

from msgspec import Meta, Struct

from monitor.bus.contract import Retention
from monitor.model.errors import ConfigurationError
from monitor.model.settings import StartSetting

__all__ = ["Retention", "StorageSettings", "store_path"]

_DEFAULT_URL = "sqlite:///var/lib/dataprep-monitor/state.db"
_SCHEME = "sqlite://"
# A URL does not count these as part of a path; a path that has them is written with %3F, %23.
_NO_PATH = re.compile(r"[?#]")


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


def _url(url: str) -> str | None:
    try:
        store_path(url)
    except (ConfigurationError, ValueError):
        return f'must be sqlite:// and an absolute path, such as "{_DEFAULT_URL}"'
    return None


class StorageSettings(Struct, frozen=True, kw_only=True):
    """The store: run states, events and consumer positions, in one file."""

    url: Annotated[
        str,
        StartSetting(
            "sqlite:// and an absolute path. The daemon needs write access to the folder. "
            "Default: dataprep-monitor/state.db in $XDG_STATE_HOME or, without that, in "
            "~/.local/state; for a user without a home /var/lib/dataprep-monitor/state.db.",
            _DEFAULT_URL,
            _url,
        ),
    ] = _DEFAULT_URL
    commit_timeout_seconds: Annotated[
        float, Meta(ge=0.1, le=600), StartSetting("Timeout of a write to the store.")
    ] = 10.0
    # How long a read may take before it is interrupted.
    read_timeout_seconds: float = 30.0
    # A transaction that has begun is awaited this much longer than its caller's timeout; then the
    # disk counts as hung and the daemon ends, because a half-dead store must not count as alive.
    stall_seconds: Annotated[
        float,
        Meta(ge=1, le=3_600),
        StartSetting(
            "Additional time for a write that has begun; then the daemon exits with an error."
        ),
    ] = 30.0
    queue_bound: Annotated[
        int,
        Meta(ge=100, le=10_000_000),
        StartSetting("Maximum number of queued writes; further writes are refused at once."),
    ] = 10_000
    # How often retention is applied.
    prune_seconds: float = 60.0
    retention: Retention = Retention()
