"""``pipelines``: the flows and plans, how each is, and when it starts next."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from monitor.cli import daemon_client
from monitor.cli.options import DaemonOptions, Limit, OnlyWorkspace, OutputOptions, shown_rows
from monitor.cli.row_layout import Column, Form
from monitor.cli.tables import print_cut, print_rows
from monitor.model.runs import PipelineKind
from monitor.model.words import percent

_PAGE = 200  # the most rows of one answer
_COLUMNS = (
    Column("state", "state", Form.STATE),
    Column("pipeline", "pipeline"),
    Column("name", "id", Form.COPIED),
    Column("workspace", "workspace"),
    Column("folder", "folder", is_wide=True),
    Column("owner", "owner", is_wide=True),
    Column("active", "running", Form.COUNT, gives_way=True),
    Column("last_status", "last run", Form.STATE, gives_way=True),
    Column("last_finished_at", "ended", Form.INSTANT),
    Column("last_run", "run", Form.COPIED, is_wide=True),
    Column("last_duration_seconds", "duration", Form.SECONDS, gives_way=True),
    Column("usual_seconds", "usual", Form.SECONDS, gives_way=True),
    Column("limit_seconds", "limit", Form.SECONDS, is_wide=True),
    Column("success", "succeed", gives_way=True),
    Column("consecutive_failures", "failures", Form.COUNT),
    Column("last_success_at", "last success", Form.INSTANT, is_wide=True),
    Column("missed_starts", "missed", Form.COUNT),
    Column("expected_start_at", "next start", Form.INSTANT),
    Column("unseen", "not seen because", Form.TEXT),
)
_FIELDS = (
    "workspace", "kind", "pipeline_id", "pipeline", "folder", "owner", "state", "active",
    "run_kind", "last_run_kind", "last_run_id", "last_status", "last_started_at",
    "last_finished_at", "last_success_at", "last_duration_seconds", "usual_seconds",
    "limit_seconds", "success_ratio",
    "consecutive_failures", "missed_starts", "expected_start_at",
)  # fmt: skip


def pipelines(
    *,
    workspace: OnlyWorkspace = None,
    kind: Annotated[PipelineKind | None, typer.Option(help="Only flows, or only plans.")] = None,
    name: Annotated[str | None, typer.Option(help="Only with this text in the name.")] = None,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="STATE",
            help="Only failing, missed, warning, unknown, running, canceled, healthy or new ones.",
        ),
    ] = None,
    owner: Annotated[str | None, typer.Option(help="Only of this owner.")] = None,
    folder: Annotated[str | None, typer.Option(help="Only in this folder.")] = None,
    sort: Annotated[
        str | None,
        typer.Option(
            metavar="ORDER",
            help="By state (the default), name, last_end, failures, duration or next_start.",
        ),
    ] = None,
    limit: Limit = None,
    output: OutputOptions,
    daemon: DaemonOptions,
) -> None:
    """List flows and plans: how each is, its last run, its next start.

    The worst come first. "failures" are those in a row, "missed" the starts that a schedule
    promised and no run came for, "succeed" the share of the newest runs that succeeded.
    """
    form = output.form
    query = {
        "workspace": workspace, "kind": kind, "q": name, "state": state, "owner": owner,
        "folder": folder, "sort": sort,
    }  # fmt: skip
    most = shown_rows(limit, form)
    found = daemon_client.list_first(daemon, "/api/v1/pipelines", query, limit=most, page=_PAGE)
    empty = "no pipeline is known yet; one is when its first run is seen"
    if any(query.values()):
        empty = "no pipeline fits; leave out a filter"
    shown = [_shown(row) for row in found.rows]
    print_rows(shown, _COLUMNS, form, raw=found.rows, fields=_FIELDS, empty=empty)
    if found.has_more:
        print_cut(len(shown), of=found.total)


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """Return a pipeline with its name for `explain`, and its share of successes."""
    ratio, run_id = row.get("success_ratio"), row.get("last_run_id")
    return {
        **row,
        "name": f"{row.get('kind', row['run_kind'])}/{row['pipeline_id']}",
        "last_run": f"{row['last_run_kind']}/{run_id}" if run_id else None,
        "success": None if ratio is None else percent(ratio),
    }
