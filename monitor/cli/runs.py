"""``runs``: the runs that the daemon knows."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from monitor.cli import daemon_client, times
from monitor.cli.options import CONFIG_FILE, AsJson, ConfigFile, WorkspaceName
from monitor.model.runs import RunKind, Status

_COLUMNS = ("workspace", "kind", "id", "status", "pipeline", "created_at", "finished_at")


def runs(
    config: ConfigFile = CONFIG_FILE,
    *,
    workspace: WorkspaceName = None,
    kind: Annotated[RunKind | None, typer.Option(help="Only this kind.")] = None,
    status: Annotated[Status | None, typer.Option(help="Only this status.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List runs that the daemon knows, the newest first.

    Times are the workspace's. ~ before a time: approximate, the workspace did not report it itself.
    """
    query = {"limit": str(limit), "workspace": workspace, "kind": kind, "status": status}
    answer = daemon_client.run_request(daemon_client.get(config, "/api/v1/runs", query))
    rows = answer["data"] if as_json else [_marked(row) for row in answer["data"]]
    daemon_client.show(rows, _COLUMNS, as_json=as_json)


def _marked(row: dict[str, Any]) -> dict[str, Any]:
    """Return a run with marks before its approximate times."""
    marked = {
        name: f"{times.APPROXIMATE}{row[name]}" for name in row["approximate"] if row.get(name)
    }
    return {**row, **marked}
