"""``alerts``: what is pending and firing now, and other rules tried on recorded events."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from monitor.cli import FILE_VARIABLE, completers, daemon_client, lazy
from monitor.cli.options import (
    CONFIG_FILE,
    DaemonOptions,
    Limit,
    OnlyWorkspace,
    OutputOptions,
    shown_rows,
)
from monitor.cli.row_layout import Column, Form, OutputForm
from monitor.cli.tables import print_cut, print_rows
from monitor.model.alerts import AlertState

_COLUMNS = (
    Column("state", "state", Form.STATE),
    Column("severity", "severity", Form.STATE),
    Column("name", "alert"),
    Column("about", "pipeline"),
    Column("workspace", "workspace"),
    Column("kind", "kind", is_wide=True),
    Column("starts_at", "since", Form.INSTANT),
    Column("quiet", "not notified"),
    Column("fingerprint", "fingerprint", Form.COPIED),
    Column("notified_at", "notified", Form.INSTANT, is_wide=True),
    Column("run", "run", Form.COPIED, is_wide=True),
    Column("url", "url", Form.COPIED, is_wide=True),
    Column("reason", "reason", Form.TEXT),
)
_FIELDS = (
    "state", "severity", "name", "rule", "workspace", "kind", "pipeline_id", "pipeline", "run_id",
    "starts_at", "ends_at", "notified_at", "reminders", "muted_by", "fingerprint",
    "annotations.summary", "annotations.description",
)  # fmt: skip
_MUTED_BY = {"mute": "mute time", "silence": "silence", "inhibited": "behind alert"}


def alerts(
    action: Annotated[
        str,
        typer.Argument(
            metavar="list|backtest",
            help="What to do.",
            autocompletion=completers.alert_actions,
        ),
    ] = "list",
    *,
    state: Annotated[AlertState | None, typer.Option(help="Only this state.")] = None,
    rule: Annotated[
        str | None,
        typer.Option(help="Only this rule, by its name.", autocompletion=completers.rules),
    ] = None,
    workspace: OnlyWorkspace = None,
    limit: Limit = None,
    since: Annotated[
        str | None, typer.Option(help="backtest: from when on, as 30d or an ISO 8601 instant.")
    ] = None,
    output: OutputOptions,
    running: Annotated[
        Path | None,
        typer.Option(
            "--daemon",
            metavar="FILE",
            help="backtest: configuration of the running daemon; default: the file that would be "
            "taken without -c, else the one that -c names.",
        ),
    ] = None,
    daemon: DaemonOptions,
) -> None:
    """List alerts, or backtest rules on recorded events.

    ``alerts backtest --since 30d -c new.toml`` evaluates the rules of another file on the recorded
    events and shows which alerts would have fired, beside those that really fired. Limits are
    learned anew from the first of these events, and schedules are taken as they stand today. What
    depends on something that no event holds is undecided, with what that is.
    """
    if action == "backtest":
        _backtest(daemon, running, since=since or "30d", form=output.form)
        return
    if action != "list":
        raise typer.BadParameter(f"{action!r} is none of list, backtest")
    if since is not None or running is not None:
        raise typer.BadParameter("--since and --daemon belong to backtest")
    form = output.form
    query = {"state": state, "rule": rule, "workspace": workspace}
    rows = daemon_client.list_rows(daemon, "/api/v1/alerts", query)
    most = shown_rows(limit, form) or len(rows)
    shown = [_shown(row) for row in rows[:most]]
    empty = "no alert fits; all open alerts are listed without filters"
    if not any(query.values()):
        empty = "no alert is open"
    print_rows(shown, _COLUMNS, form, raw=rows[:most], fields=_FIELDS, empty=empty)
    if len(rows) > most:
        print_cut(most, of=len(rows))


def _backtest(daemon: DaemonOptions, running: Path | None, *, since: str, form: OutputForm) -> None:
    if daemon.is_url and running is not None:
        raise typer.BadParameter("--daemon: --url names a daemon too; leave one out")
    address = (
        daemon_client.url_address(daemon)
        if daemon.is_url
        else daemon_client.configured_address(
            running or _configuration_of_the_daemon() or daemon.config
        )
    )
    lazy.backtest.backtest(daemon.config, daemon=address, since=since, form=form)


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """Return an alert with what people read."""
    facts = row.get("facts") or {}
    run_id, kind = row.get("run_id"), row.get("kind")
    return {
        **row,
        "about": row.get("pipeline"),
        "quiet": _quiet(row),
        "run": f"{kind}/{run_id}" if run_id else None,
        "url": facts.get("url"),
        "reason": _reason(row),
    }


def _reason(row: dict[str, Any]) -> str | None:
    """Return why it fires, and what keeps anybody from judging whether it still does."""
    texts = row.get("annotations") or {}
    reason = texts.get("description") or texts.get("summary")
    if row.get("unjudged"):
        return f"{reason} (not judged now: {row['unjudged']})"
    return reason


def _quiet(row: dict[str, Any]) -> list[str]:
    """Return why people are not notified of it, or not again."""
    quiet: list[str] = []
    for text in row.get("muted_by", ()):
        by, _, which = str(text).partition(":")
        quiet.append(f"{_MUTED_BY.get(by, by)} {which}".strip())
    if row.get("acknowledged"):
        quiet.append(f"acknowledged by {row['acknowledged']['author']}")
    return quiet


def _configuration_of_the_daemon() -> Path | None:
    path = Path(os.environ.get(FILE_VARIABLE) or CONFIG_FILE)
    return path if path.exists() else None
