"""``alerts``: what is pending and firing now, and other rules tried on recorded events."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from monitor.cli import FILE_VARIABLE, completers, daemon_client, lazy, time_options
from monitor.cli.options import (
    CONFIG_FILE,
    DaemonOptions,
    Limit,
    OnlyWorkspace,
    OutputOptions,
    shown_rows,
)
from monitor.cli.row_layout import Column, Form, OutputForm
from monitor.cli.tables import print_cut, print_remark, print_rows
from monitor.model.alerts import Severity
from monitor.model.outside import LONGEST_ERROR, harmless

_COLUMNS = (
    Column("state", "state", Form.STATE),
    Column("severity", "severity", Form.STATE),
    Column("name", "alert"),
    Column("about", "pipeline"),
    Column("workspace", "workspace"),
    Column("kind", "kind", is_wide=True),
    Column("starts_at", "since", Form.INSTANT),
    Column("ends_at", "ended", Form.INSTANT),
    Column("quiet", "not notified", Form.COPIED),
    Column("fingerprint", "fingerprint", Form.COPIED),
    Column("notified_at", "notified", Form.INSTANT, is_wide=True),
    Column("run", "run", Form.COPIED, is_wide=True),
    Column("url", "url", Form.COPIED, is_wide=True),
    Column("runbook", "runbook", Form.COPIED, is_wide=True),
    Column("reason", "reason", Form.TEXT),
)
_FIELDS = (
    "state", "severity", "name", "rule", "workspace", "kind", "pipeline_id", "pipeline", "run_id",
    "starts_at", "ends_at", "notified_at", "notified_through", "unnotified",
    "reminders", "muted_by", "fingerprint", "annotations.summary", "annotations.description",
)  # fmt: skip


class AlertFilter(StrEnum):
    """Which alerts are listed."""

    OPEN = "open"
    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"
    ALL = "all"


Since = Annotated[
    str | None,
    typer.Option(
        help="Open alerts, and those that ended since then: 7d or an ISO 8601 instant. "
        "backtest: from when on."
    ),
]
RunningDaemon = Annotated[
    Path | None,
    typer.Option(
        "--daemon",
        metavar="FILE",
        help="backtest: configuration of the running daemon; default: the file that would be "
        "taken without -c, else the one that -c names.",
    ),
]


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
    state: Annotated[
        AlertFilter | None,
        typer.Option(
            help="Only this state; open (pending and firing) by default, all with --since."
        ),
    ] = None,
    severity: Annotated[Severity | None, typer.Option(help="Only this severity.")] = None,
    pipeline: Annotated[
        str | None, typer.Option(help="Only about this flow or plan, by its name or id.")
    ] = None,
    rule: Annotated[
        str | None,
        typer.Option(help="Only this rule, by its name.", autocompletion=completers.rules),
    ] = None,
    workspace: OnlyWorkspace = None,
    limit: Limit = None,
    since: Since = None,
    output: OutputOptions,
    running: RunningDaemon = None,
    daemon: DaemonOptions,
) -> None:
    """List alerts, or backtest rules on recorded events.

    ``alerts backtest --since 30d -c new.toml`` evaluates the rules of another file on the recorded
    events and shows which alerts would have fired, beside those that really fired. Limits are
    learned again from the first of these events, and schedules are taken as they stand today. What
    depends on something that no event holds is undecided, with what that is.
    """
    if action == "backtest":
        _backtest(daemon, running, since=since or "30d", form=output.form)
        return
    if action != "list":
        raise typer.BadParameter(f"{action!r} is none of list, backtest")
    if running is not None:
        raise typer.BadParameter("--daemon belongs to backtest")
    filters = {"rule": rule, "workspace": workspace, "severity": severity, "pipeline": pipeline}
    begin = None if since is None else time_options.since(since).isoformat()
    chosen = state or (AlertFilter.OPEN if begin is None else AlertFilter.ALL)
    query = {**filters, "state": None if chosen is AlertFilter.ALL else chosen, "since": begin}
    _list(daemon, query, limit=limit, form=output.form)


def _list(
    daemon: DaemonOptions, query: Mapping[str, str | None], *, limit: int | None, form: OutputForm
) -> None:
    most = shown_rows(limit, form)
    found = daemon_client.list_first(daemon, "/api/v1/alerts", query, limit=most)
    is_filtered = any(value for name, value in query.items() if name != "state")
    empty = "no alert is open"
    if is_filtered or query["state"] != AlertFilter.OPEN:
        empty = "no alert fits; leave out a filter"
    shown = [_shown(row, is_wide=form is OutputForm.WIDE) for row in found.rows]
    print_rows(shown, _COLUMNS, form, raw=found.rows, fields=_FIELDS, empty=empty)
    if found.has_more:
        print_cut(len(shown), of=found.total)
    for name, why in (found.answer.get("failing_rules") or {}).items():
        print_remark(f"rule {name} cannot be evaluated: {harmless(why, longest=LONGEST_ERROR)}")


def _backtest(daemon: DaemonOptions, running: Path | None, *, since: str, form: OutputForm) -> None:
    # Here -c names the rules, so it says nothing against a URL.
    if running is not None and daemon.is_typed("url"):
        raise typer.BadParameter("--daemon: --url names a daemon too; leave one out")
    if daemon.url is not None and running is None:
        address = daemon_client.url_address(daemon)
    else:
        path = running or _configuration_of_the_daemon() or daemon.config
        address = daemon_client.configured_address(path, daemon)
    lazy.backtest.backtest(daemon.config, daemon=address, since=since, form=form)


def _shown(row: dict[str, Any], *, is_wide: bool) -> dict[str, Any]:
    """Return an alert with what people read."""
    run_id, kind = row.get("run_id"), row.get("run_kind") or row.get("kind")
    texts = row.get("annotations") or {}
    reason = row.get("reason") or texts.get("description") or texts.get("summary")
    if row.get("unjudged"):
        reason = f"{reason} (not judged now: {row['unjudged']})"
    return {
        **row,
        "state": row.get("state_words") or row["state"],
        "about": row.get("subject") or row.get("pipeline"),
        "quiet": _quiet(row, is_wide=is_wide),
        "run": f"{kind}/{run_id}" if run_id else None,
        "reason": reason,
    }


def _quiet(row: dict[str, Any], *, is_wide: bool) -> list[str]:
    """Return why people are not notified of it, or not again; short, or wide with who and why."""
    quiet: list[str] = []
    for cause in row.get("suppressed_by") or ():
        if not is_wide and cause.get("silence_id"):
            quiet.append(f"silence {cause['silence_id']}")
        elif not is_wide and cause.get("fingerprint"):
            quiet.append(f"waits for alert {cause['fingerprint']}")
        else:
            quiet.append("mute time" if not is_wide else cause["words"])
    if row.get("unnotified") and not quiet:
        quiet.append(row["unnotified"] if is_wide else "no output took it")
    if row.get("acknowledged"):
        by = row["acknowledged"]
        until = f" until {by['until']}" if is_wide and by.get("until") else ""
        quiet.append(f"acknowledged by {by['author']}{until}")
    return quiet


def _configuration_of_the_daemon() -> Path | None:
    path = Path(os.environ.get(FILE_VARIABLE) or CONFIG_FILE)
    return path if path.exists() else None
