"""``alerts``: what is pending and firing now, and other rules tried on recorded events."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from monitor.cli import FILE_VARIABLE, completers, daemon_client, lazy
from monitor.cli.options import CONFIG_FILE, AsJson, ConfigFile
from monitor.model.alerts import AlertState

_COLUMNS = (
    "state", "severity", "name", "workspace", "kind", "pipeline", "starts_at", "muted_by",
    "fingerprint",
)  # fmt: skip


def alerts(
    action: Annotated[
        str,
        typer.Argument(
            metavar="list|backtest",
            help="What to do.",
            autocompletion=completers.alert_actions,
        ),
    ] = "list",
    config: ConfigFile = CONFIG_FILE,
    *,
    state: Annotated[AlertState | None, typer.Option(help="Only this state.")] = None,
    rule: Annotated[
        str | None,
        typer.Option(help="Only this rule, by its name.", autocompletion=completers.rules),
    ] = None,
    workspace: Annotated[
        str | None,
        typer.Option(
            "--workspace",
            "-w",
            help="Only this workspace.",
            autocompletion=completers.workspaces,
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="backtest: from when on, as 30d or an ISO 8601 instant.")
    ] = None,
    daemon: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="backtest: configuration of the running daemon; default: the file that would be "
            "taken without -c, else the one that -c names.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List alerts, or backtest rules on recorded events.

    ``alerts backtest --since 30d -c new.toml`` evaluates the rules of another file on the recorded
    events and shows which alerts would have fired, beside those that really fired. Limits are
    learned anew from the first of these events, and schedules are taken as they stand today. What
    depends on something that no event holds is undecided, with what that is.
    """
    if action == "backtest":
        running = daemon or _configuration_of_the_daemon() or config
        lazy.backtest.backtest(config, daemon=running, since=since or "30d", as_json=as_json)
        return
    if action != "list":
        raise typer.BadParameter(f"{action!r} is none of list, backtest")
    if since is not None or daemon is not None:
        raise typer.BadParameter("--since and --daemon belong to backtest")
    query = {"state": state, "rule": rule, "workspace": workspace}
    answer = daemon_client.run_request(daemon_client.get(config, "/api/v1/alerts", query))
    daemon_client.show(answer["data"], _COLUMNS, as_json=as_json)


def _configuration_of_the_daemon() -> Path | None:
    path = Path(os.environ.get(FILE_VARIABLE) or CONFIG_FILE)
    return path if path.exists() else None
