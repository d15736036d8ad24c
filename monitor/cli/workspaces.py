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
    Column("access", "access"),
    Column("token_ends", "token ends", Form.INSTANT, gives_way=True),
    Column("token_refreshed", "token refreshed", Form.INSTANT, is_wide=True),
    Column("refresh_token_ends", "refresh token ends", Form.INSTANT, is_wide=True),
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
    "followed_since", "capabilities", "unwatched", "authentication",
    "refreshed_token.refreshed_at", "refreshed_token.expires_at",
    "refreshed_token.pair_expires_at", "refreshed_token.trouble.reason",
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
    """Return a workspace with its tokens, and why something is not watched or in danger there."""
    token = row.get("refreshed_token") or {}
    trouble = token.get("trouble") or {}
    whys = dict.fromkeys(known["reason"] for known in row.get("unwatched_because") or ())
    reason = row.get("reason") or ""
    is_said = bool(reason) and row.get("reachability") == "unreachable"
    others = [] if is_said else [why for why in whys if why not in reason]
    reasons = (reason, *others, trouble.get("reason"))
    access = (row.get("authentication") or "").replace("_", " ")
    return {
        **row,
        "access": f"{access}, in danger" if trouble else access or None,
        "token_ends": token.get("expires_at"),
        "token_refreshed": token.get("refreshed_at"),
        "refresh_token_ends": token.get("pair_expires_at"),
        "reason": "; ".join(filter(None, reasons)) or None,
    }
