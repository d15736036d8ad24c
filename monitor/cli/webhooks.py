"""``webhooks``: the webhook tasks that the daemon registered."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor.cli import completers, daemon_client
from monitor.cli.options import CONFIG_FILE, AsJson, ConfigFile, WorkspaceName

_TASK_COLUMNS = ("workspace", "flow", "flow_id", "state", "reason")
_TEST_COLUMNS = ("workspace", "ok", "status_code", "error")


def webhooks(
    action: Annotated[
        str,
        typer.Argument(
            metavar="list|sync|test|delete",
            help="What to do.",
            autocompletion=completers.webhook_actions,
        ),
    ],
    config: ConfigFile = CONFIG_FILE,
    *,
    workspace: WorkspaceName = None,
    flow: Annotated[str | None, typer.Option(help="Only the task of this flow, by id.")] = None,
    as_json: AsJson = False,
) -> None:
    """List, sync, test or delete the daemon's webhook tasks."""
    if action not in completers.webhook_actions():
        raise typer.BadParameter(f"{action!r} is none of list, sync, test, delete")
    if action == "list":
        request = daemon_client.get(config, "/api/v1/webhooks", {"workspace": workspace})
    else:
        body = {"action": action, "workspace": workspace, "flow": flow}
        request = daemon_client.post(config, "/api/v1/webhooks", body)
    rows = daemon_client.run_request(request)["data"]
    is_test = action == "test"
    daemon_client.show(rows, _TEST_COLUMNS if is_test else _TASK_COLUMNS, as_json=as_json)
    if is_test and not all(row["ok"] for row in rows):
        raise typer.Exit(1)
