"""Whether the store can be used, or a running daemon uses it. Creates and changes nothing."""

from __future__ import annotations

import os
from pathlib import Path

from monitor.bus.settings import StorageSettings, store_path
from monitor.bus.sqlite.lock import holder_of
from monitor.cli.doctor_checks.lines import CheckLine, failed, ok

_SUBJECT = "store"
_HINT = "give the user that runs the monitor the right to write there, or change storage.url"


async def check_storage(settings: StorageSettings) -> list[CheckLine]:
    """Check the file, its folder and which daemon holds it."""
    path = store_path(settings.url)
    holder = holder_of(path) if path.parent.is_dir() else None
    if holder is not None:
        return [ok(_SUBJECT, f"{path} is held by the running daemon, {holder}")]
    if path.exists():
        return [_existing(path)]
    folder = _nearest(path.parent)
    if not folder.is_dir():
        return [failed(_SUBJECT, f"{path} cannot be created: {folder} is no folder", _HINT)]
    if not _may(folder, os.W_OK | os.X_OK):
        return [failed(_SUBJECT, f"{path} cannot be created: {folder} may not be written", _HINT)]
    return [ok(_SUBJECT, f"{path} does not exist yet and can be created")]


def _existing(path: Path) -> CheckLine:
    if not path.is_file():
        return failed(_SUBJECT, f"{path} is no file", "name a file in storage.url")
    # The folder too: the store keeps its lock and its journal beside the file.
    for place, rights in ((path, os.R_OK | os.W_OK), (path.parent, os.W_OK | os.X_OK)):
        if not _may(place, rights):
            return failed(_SUBJECT, f"{place} may not be written", _HINT)
    return ok(_SUBJECT, f"{path} is there, can be written, and no daemon holds it")


def _may(path: Path, rights: int) -> bool:
    return os.access(path, rights, effective_ids=True)


def _nearest(folder: Path) -> Path:
    """Return the folder, or where it is missing the closest one above that exists."""
    return next(candidate for candidate in (folder, *folder.parents) if candidate.exists())
