"""``schedules``: what starts which pipeline, and when next."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from monitor.cli import daemon_client
from monitor.cli.options import DaemonOptions, OnlyWorkspace, OutputOptions
from monitor.cli.row_layout import Column, Form, OutputForm
from monitor.cli.tables import print_remark, print_rows

_COLUMNS = (
    Column("state", "state", Form.STATE),
    Column("name", "schedule"),
    Column("id", "id", Form.COPIED, is_wide=True),
    Column("workspace", "workspace"),
    Column("starts", "starts"),
    Column("next_start_at", "next start", Form.INSTANT),
    Column("when", "when", gives_way=True),
    Column("timezone", "time zone", gives_way=True),
    Column("owner", "owner", is_wide=True),
    Column("updated_at", "changed", Form.INSTANT, is_wide=True),
    Column("reason", "reason", Form.TEXT),
)
_FIELDS = (
    "workspace", "id", "name", "is_enabled", "disable_reason", "owner", "starts", "when",
    "timezone", "next_start_at", "created_at", "updated_at",
)  # fmt: skip


def schedules(
    *,
    workspace: OnlyWorkspace = None,
    pipeline: Annotated[
        str | None, typer.Option(help="Only what starts this flow or plan, by its name or id.")
    ] = None,
    output: OutputOptions,
    daemon: DaemonOptions,
) -> None:
    """List schedules: what each starts, and when next.

    Only schedules that the workspace's token can see; those of other owners are not listed.
    """
    query = {"workspace": workspace, "pipeline": pipeline}
    found = daemon_client.list_rows(daemon, "/api/v1/schedules", query)
    rows = [_row(of, schedule) for of in found for schedule in of["schedules"]]
    empty = "no schedule is visible to the tokens of the workspaces"
    if any(query.values()):
        empty = "no schedule fits; leave out a filter"
    form = output.form
    raw = rows
    if form is OutputForm.JSON:
        raw = [{"workspace": of["workspace"], **row} for of in found for row in of["schedules"]]
    print_rows(rows, _COLUMNS, form, raw=raw, fields=_FIELDS, empty=empty)
    for of in found:
        if of.get("unwatched"):
            print_remark(f"{of['workspace']}: {of['unwatched']}")


def _row(of: dict[str, Any], schedule: dict[str, Any]) -> dict[str, Any]:
    """Return a schedule as one flat row."""
    triggers = schedule.get("in_words") or ()
    starts = schedule.get("starts") or schedule["pipelines"]
    zones = {trigger["timezone"]: None for trigger in triggers}
    problems = [trigger["problem"] for trigger in triggers if trigger.get("problem")]
    return {
        **schedule,
        "workspace": of["workspace"],
        "owner": schedule.get("owner") or of.get("of"),
        "state": "active" if schedule["is_enabled"] else "disabled",
        "starts": [f"{started['name']} ({started['kind']}/{started['id']})" for started in starts],
        "when": [trigger["words"] for trigger in triggers],
        "timezone": list(zones),
        "reason": schedule.get("disable_reason") or "; ".join(problems),
    }
