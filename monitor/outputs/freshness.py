"""Until when a status may be repeated, and from when on it is unknown. Pure."""

from __future__ import annotations

from datetime import datetime

from monitor.model.live_state import Reachability, WorkspaceStatus
from monitor.model.runs import RunKind

UNSEEN_FACTOR = 4  # how many times the limit a single run may be unobserved beside a fresh list


def knows_what_runs(
    status: WorkspaceStatus,
    kind: RunKind,
    *,
    is_unread: bool,
    oldest_at: datetime | None,
    listed_at: datetime | None,
    known_since: datetime,
    seen_since: datetime,
) -> bool:
    """True while the live state of one pipeline's runs is fresh; a stale one is not repeated.

    ``is_unread``: runs of the kind cannot be read. ``oldest_at`` is when that of the pipeline's
    active runs was confirmed which was confirmed longest ago, None where none is active.
    ``listed_at`` is when runs of it were last confirmed as a whole, ``known_since`` the instant
    after which all is too old.
    No list keeps a run fresh that was not observed since ``seen_since``, which lies further back,
    because an unchanged run is observed by reconciliation alone.
    """
    if status.reachability is Reachability.UNKNOWN or is_unread:
        return False
    if oldest_at is not None and oldest_at < seen_since:
        return False
    if listed_at is not None and listed_at >= known_since:
        return True
    if any(kind in cause.unwatched for cause in status.doubted):
        return False  # single runs are still read, but new ones are seen no more
    # The list of all runs is old, or was never to be had; then each single run must be fresh.
    # Without a run to read, it is unknown that there is none.
    return oldest_at is not None and oldest_at >= known_since
