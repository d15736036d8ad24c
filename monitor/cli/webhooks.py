"""``webhooks``: the webhook tasks that the daemon registered."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor.cli import completers, daemon_client, lazy
from monitor.cli.options import DaemonOptions, OutputOptions, WorkspaceName
from monitor.cli.row_layout import Column, Form
from monitor.cli.tables import print_rows

_TASK_COLUMNS = (
    Column("state", "state", Form.STATE),
    Column("flow", "flow"),
    Column("flow_id", "flow id", Form.COPIED),
    Column("workspace", "workspace"),
    Column("reason", "reason", Form.TEXT),
)
_TEST_COLUMNS = (
    Column("workspace", "workspace", Form.COPIED),
    Column("ok", "ok"),
    Column("status_code", "answer"),
    Column("error", "error", Form.TEXT),
)


def webhooks(
    action: Annotated[
        str,
        typer.Argument(
            metavar="list|sync|test|delete",
            help="What to do.",
            autocompletion=completers.webhook_actions,
        ),
    ],
    *,
    workspace: WorkspaceName = None,
    flow: Annotated[str | None, typer.Option(help="Only the task of this flow, by id.")] = None,
    output: OutputOptions,
    daemon: DaemonOptions,
) -> None:
    """List, sync, test or delete the daemon's webhook tasks."""
    if action not in completers.webhook_actions():
        raise typer.BadParameter(f"{action!r} is none of list, sync, test, delete")
    form = output.form
    if action == "list":
        answer = daemon_client.get(daemon, "/api/v1/webhooks", {"workspace": workspace})
    else:
        body = {"action": action, "workspace": workspace, "flow": flow}
        answer = daemon_client.post(daemon, "/api/v1/webhooks", body)
    rows = lazy.admin.rows_of(answer)
    is_test = action == "test"
    empty = "the daemon has no webhook task; [workspaces.callbacks] says for which flows"
    print_rows(rows, _TEST_COLUMNS if is_test else _TASK_COLUMNS, form, empty=empty)
    if is_test and not all(row["ok"] for row in rows):
        raise typer.Exit(1)
