"""``runs``: the runs that the daemon knows."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import typer

from monitor.cli import daemon_client, time_options
from monitor.cli.options import SHOWN, DaemonOptions, Limit, OnlyWorkspace, OutputOptions
from monitor.cli.row_layout import Column, Form
from monitor.cli.tables import print_cut, print_rows
from monitor.model.runs import RunKind, Status

_COLUMNS = (
    Column("status", "status", Form.STATE),
    Column("pipeline", "pipeline"),
    Column("name", "run", Form.COPIED),
    Column("workspace", "workspace"),
    Column("created_at", "created", Form.INSTANT),
    Column("started_at", "started", Form.INSTANT, is_wide=True),
    Column("finished_at", "ended", Form.INSTANT, is_wide=True),
    Column("duration_seconds", "duration", Form.SECONDS, gives_way=True),
    Column("percent", "done"),
    Column("trigger", "trigger", is_wide=True),
    Column("owner", "owner", is_wide=True),
    Column("recipe", "recipe", is_wide=True),
    Column("parents", "part of", Form.COPIED, is_wide=True),
    Column("url", "url", Form.COPIED, is_wide=True),
    Column("reason", "reason", Form.TEXT),
)
_FIELDS = (
    "workspace", "kind", "id", "status", "native_status", "pipeline_id", "pipeline", "recipe_id",
    "recipe", "created_at", "started_at", "finished_at", "approximate", "duration_seconds",
    "trigger", "owner", "flow_run", "plan_run", "url", "error",
)  # fmt: skip


def runs(
    *,
    workspace: OnlyWorkspace = None,
    kind: Annotated[RunKind | None, typer.Option(help="Only this kind.")] = None,
    pipeline: Annotated[
        str | None, typer.Option(help="Only this flow or plan, by its name or id.")
    ] = None,
    status: Annotated[Status | None, typer.Option(help="Only this status.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Only runs created since then: 2h, 7d or ISO 8601.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Only runs created before, in the same forms.")
    ] = None,
    limit: Limit = None,
    output: OutputOptions,
    daemon: DaemonOptions,
) -> None:
    """List runs that the daemon knows, the newest first.

    Times are the workspace's. ~ before a time: approximate, the workspace did not report it itself.
    """
    form, begin = output.form, None if since is None else time_options.since(since)
    end = None if until is None else time_options.until(until)
    query = {
        "workspace": workspace, "kind": kind, "pipeline": pipeline, "status": status,
        "since": None if begin is None else begin.isoformat(),
        "until": None if end is None else end.isoformat(),
    }  # fmt: skip
    most = SHOWN if limit is None else limit
    found = daemon_client.list_first(daemon, "/api/v1/runs", query, limit=most)
    empty = "no run fits; leave out a filter, or look further back with --since"
    shown = [_shown(row, now=time_options.now()) for row in found.rows]
    print_rows(shown, _COLUMNS, form, raw=found.rows, fields=_FIELDS, empty=empty)
    if found.has_more:
        print_cut(len(shown), of=found.total)


def _shown(row: dict[str, Any], *, now: datetime) -> dict[str, Any]:
    """Return a run with what people read: its name for `explain`, marks, percent and reason."""
    marked = {
        name: f"{time_options.APPROXIMATE}{row[name]}"
        for name in row["approximate"]
        if row.get(name)
    }
    percent = row.get("percent_complete")
    parents = [f"{kind}/{row[kind]}" for kind in ("flow_run", "plan_run") if row.get(kind)]
    return {
        **row,
        **marked,
        "name": f"{row['kind']}/{row['id']}",
        "percent": None if percent is None else f"{percent:.0f} %",
        "parents": parents,
        "duration_seconds": _seconds(row, now),
        "reason": _reason(row),
    }


def _seconds(row: dict[str, Any], now: datetime) -> float | None:
    """Return how long a run took, or has run so far."""
    begun = row.get("started_at") or row.get("created_at")
    if row["status"] != Status.RUNNING or row.get("duration_seconds") is not None or begun is None:
        seconds: float | None = row.get("duration_seconds")
        return seconds
    return max(0.0, (now - datetime.fromisoformat(begun)).total_seconds())


def _reason(row: dict[str, Any]) -> str | None:
    """Return why a run is as it is, where there is something to say."""
    if row.get("reason") or row.get("error"):
        return str(row.get("reason") or row["error"])
    if row.get("unconfirmed_end"):
        return f"a callback reported {row['unconfirmed_end']}; the workspace has not confirmed it"
    if row["status"] == "unknown":
        return f"last known {row['last_status']}; not confirmed since {row['confirmed_at']}"
    if row.get("implausible"):
        return f"implausible: {', '.join(row['implausible'])}"
    return None
