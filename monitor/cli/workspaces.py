"""``workspaces``: what is followed, and whether it can be seen."""

from __future__ import annotations

from typing import Any

from monitor.cli import daemon_client
from monitor.cli.options import DaemonOptions, OutputOptions
from monitor.cli.row_layout import Column, Form
from monitor.cli.tables import print_rows

_COLUMNS = (
    Column("workspace", "workspace", Form.COPIED),
    Column("reachability", "state", Form.STATE),
    Column("since", "since", Form.INSTANT),
    Column("known_at", "confirmed", Form.INSTANT),
    Column("edition", "edition"),
    Column("active_runs", "running", Form.COUNT),
    Column("schedules_watched", "schedules", Form.COUNT),
    Column("schedules_of", "schedules of", gives_way=True),
    Column("callbacks_missed", "missed callbacks", Form.COUNT, gives_way=True),
    Column("clock_skew_seconds", "clock skew", Form.SECONDS, is_wide=True),
    Column("followed_since", "followed since", Form.INSTANT, is_wide=True),
    Column("capabilities", "capabilities", is_wide=True),
    Column("unwatched", "not watched"),
    Column("reason", "reason", Form.TEXT),
)
_FIELDS = (
    "workspace", "reachability", "since", "known_at", "reason", "edition", "active_runs",
    "schedules_watched", "schedules_of", "callbacks_missed", "clock_skew_seconds",
    "followed_since", "capabilities", "unwatched",
)  # fmt: skip


def workspaces(
    *,
    output: OutputOptions,
    daemon: DaemonOptions,
) -> None:
    """List workspaces: whether each can be seen, and since when."""
    rows = daemon_client.list_rows(daemon, "/api/v1/workspaces")
    print_rows(
        [_shown(row) for row in rows],
        _COLUMNS,
        output.form,
        raw=rows,
        fields=_FIELDS,
        empty="no workspace is followed",
    )


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """Return a workspace with why something is not watched there, where nothing else fails."""
    whys = dict.fromkeys(known["reason"] for known in row.get("unwatched_because") or ())
    return {**row, "reason": row.get("reason") or "; ".join(whys) or None}
