"""A store that is empty or missing beside traces of a former one: nothing of that is destroyed."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import structlog

from monitor.model.errors import BusUnavailableError

logger = structlog.get_logger()


def traces_beside(store: Path) -> list[Path]:
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


def begin_anew(store: Path, traces: list[Path], *, now: datetime) -> None:
    """Say so, and keep the former write-ahead log: SQLite would delete it beside an empty file.

    Raises:
        BusUnavailableError: the log cannot be kept.
    """
    wal = store.with_name(f"{store.name}-wal")
    kept = None
    if wal in traces:
        kept = wal.with_name(f"{wal.name}.former-{now:%Y%m%dT%H%M%SZ}")
        try:
            wal.rename(kept)
        except OSError as exc:
            raise BusUnavailableError(f"{wal} cannot be renamed: {exc.strerror}") from exc
    logger.warning(
        "store begins anew beside traces of a former one",
        store=str(store),
        traces=[path.name for path in traces],
        kept_log=None if kept is None else kept.name,
        hint="its events, counters and alerts are not used; to have them, stop the daemon and put "
        "the former store back",
    )
