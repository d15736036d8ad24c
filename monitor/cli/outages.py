"""``outages``: when workspaces were not seen in the last seven days, and why."""

from __future__ import annotations

from monitor.cli import daemon_client
from monitor.cli.options import DaemonOptions, OnlyWorkspace, OutputOptions
from monitor.cli.row_layout import Column, Form
from monitor.cli.tables import print_rows

_COLUMNS = (
    Column("workspace", "workspace", Form.COPIED),
    Column("since", "since", Form.INSTANT),
    Column("until", "until", Form.INSTANT),
    Column("seconds", "lasted", Form.SECONDS),
    Column("state", "state", Form.STATE),
    Column("why", "why", Form.TEXT),
)
_FIELDS = ("workspace", "since", "until", "is_over", "is_partial", "is_cut", "seconds", "why")


def outages(
    *,
    workspace: OnlyWorkspace = None,
    output: OutputOptions,
    daemon: DaemonOptions,
) -> None:
    """List when workspaces were not seen in the last days, and why.

    What happened in one of them: report --since TIME --until TIME, or its page.
    """
    rows = daemon_client.list_rows(daemon, "/api/v1/outages", {"workspace": workspace})
    print_rows(
        [{**row, "state": "over" if row.get("is_over") else "lasts"} for row in rows],
        _COLUMNS,
        output.form,
        raw=rows,
        fields=_FIELDS,
        empty="no outage in the last seven days",
    )
