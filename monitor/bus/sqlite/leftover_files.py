"""Leftover files of a former store beside an empty or missing one: none is destroyed."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import structlog

from monitor.model.errors import BusUnavailableError

logger = structlog.get_logger()


def leftovers_beside(store: Path) -> list[Path]:
    """Return the files that a former store has left where the store itself is empty or missing.

    Raises:
        BusUnavailableError: the folder may not be read.
    """
    beginnings = (f"{store.name}.", f"{store.name}-")
    try:
        if (store.exists() and store.stat().st_size > 0) or not store.parent.is_dir():
            return []
        return sorted(
            path
            for path in store.parent.iterdir()
            if path.name.startswith(beginnings) and path.is_file() and path.stat().st_size > 0
        )
    except OSError as exc:
        raise BusUnavailableError(f"{store.parent} cannot be read: {exc.strerror}") from exc


def start_beside_leftovers(store: Path, leftovers: list[Path], *, now: datetime) -> None:
    """Say so, and keep the former write-ahead log: SQLite would delete it beside an empty file.

    Raises:
        BusUnavailableError: the log cannot be kept.
    """
    wal = store.with_name(f"{store.name}-wal")
    kept = None
    if wal in leftovers:
        kept = wal.with_name(f"{wal.name}.former-{now:%Y%m%dT%H%M%SZ}")
        try:
            wal.rename(kept)
        except OSError as exc:
            raise BusUnavailableError(f"{wal} cannot be renamed: {exc.strerror}") from exc
    logger.warning(
        "new store beside leftover files of a former one",
        store=str(store),
        leftovers=[path.name for path in leftovers],
        kept_log=None if kept is None else kept.name,
        hint="its events, counters and alerts are not used; to have them, stop the daemon and put "
        "the former store back",
    )
