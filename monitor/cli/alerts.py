"""``alerts`` and ``silence``: what is wrong now, and who does not want to hear it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from monitor.cli import completing, daemon_client, durations
from monitor.cli.options import CONFIG_FILE, FILE_VARIABLE, AsJson, ConfigFile
from monitor.model.alerts import AlertState
from monitor.model.errors import ConfigurationError

_ALERT_COLUMNS = (
    "state", "severity", "name", "workspace", "kind", "pipeline", "starts_at", "muted_by",
    "fingerprint",
)  # fmt: skip
_SILENCE_COLUMNS = (
    "id", "state", "matchers", "starts_at", "ends_at", "author", "comment", "origin",
)  # fmt: skip


def alerts(
    action: Annotated[
        str,
        typer.Argument(
            metavar="list|backtest",
            help="What to do.",
            autocompletion=completing.alert_actions,
        ),
    ] = "list",
    config: ConfigFile = CONFIG_FILE,
    *,
    state: Annotated[AlertState | None, typer.Option(help="Only this state.")] = None,
    rule: Annotated[
        str | None,
        typer.Option(help="Only this rule, by its name.", autocompletion=completing.rules),
    ] = None,
    workspace: Annotated[
        str | None,
        typer.Option(
            "--workspace",
            "-w",
            help="Only this workspace.",
            autocompletion=completing.workspaces,
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
    """List alerts, or try other rules on what the daemon has recorded.

    ``alerts backtest --since 30d -c new.toml`` judges the recorded events by the rules of
    another file and shows what they would have told, beside what really was told. Limits are
    learned anew from the first of these events, and schedules are taken as they stand today.
    """
    if action == "backtest":
        from monitor.cli.backtest import backtest  # noqa: PLC0415 - help must answer fast

        running = daemon or _configuration_of_the_daemon() or config
        backtest(config, daemon=running, since=since or "30d", as_json=as_json)
        return
    if action != "list":
        raise typer.BadParameter(f"{action!r} is none of list, backtest")
    if since is not None or daemon is not None:
        raise typer.BadParameter("--since and --daemon belong to backtest")
    query = {"state": state, "rule": rule, "workspace": workspace}
    answer = daemon_client.ask(daemon_client.get(config, "/api/v1/alerts", query))
    daemon_client.show(answer["data"], _ALERT_COLUMNS, as_json=as_json)


def _configuration_of_the_daemon() -> Path | None:
    told = os.environ.get(FILE_VARIABLE)
    path = Path(told) if told else CONFIG_FILE
    return path if path.exists() else None


def silence(
    action: Annotated[
        str,
        typer.Argument(
            metavar="add|list|expire",
            help="What to do.",
            autocompletion=completing.silence_actions,
        ),
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MATCHER]...|[ID]",
            help="add: label=glob or label!=glob, all of which must fit; expire: the silence.",
            autocompletion=completing.silence_words,
        ),
    ] = None,
    config: ConfigFile = CONFIG_FILE,
    *,
    lasts: Annotated[str | None, typer.Option("--for", help="How long, as 30m, 2h, 7d.")] = None,
    until: Annotated[str | None, typer.Option(help="Its end: ISO 8601 with its zone.")] = None,
    starts: Annotated[str | None, typer.Option("--from", help="Its start; default: now.")] = None,
    comment: Annotated[str | None, typer.Option(help="Why; who reads it later asks.")] = None,
    author: Annotated[str | None, typer.Option(help="Who; default: the user's name.")] = None,
    as_json: AsJson = False,
) -> None:
    """Silence alerts until an end, list silences, or end one before its time.

    A silenced alert stays on the page and is told when the silence ends, if it still fires.
    """
    given = words or []
    options = (lasts, until, starts, comment, author)
    if action == "add":
        body = _silence_body(given, lasts=lasts, until=until, starts=starts, comment=comment)
        body["author"] = author or _user()
        _show_silences(
            [daemon_client.ask(daemon_client.post(config, "/api/v1/silences", body))], as_json
        )
        return
    if any(option is not None for option in options):
        raise typer.BadParameter("--for, --until, --from, --comment and --author belong to add")
    if action == "list":
        if given:
            raise typer.BadParameter("list takes no further words")
        answer = daemon_client.ask(daemon_client.get(config, "/api/v1/silences", {}))
        _show_silences(answer["data"], as_json)
    elif action == "expire":
        if len(given) != 1:
            raise typer.BadParameter("expire takes the id of one silence: see silence list")
        answer = daemon_client.ask(
            daemon_client.delete(config, f"/api/v1/silences/{_segment(given[0])}")
        )
        sys.stdout.write(f"{answer['detail']}\n")
    else:
        raise typer.BadParameter(f"{action!r} is none of add, list, expire")


def _silence_body(
    matchers: list[str],
    *,
    lasts: str | None,
    until: str | None,
    starts: str | None,
    comment: str | None,
) -> dict[str, Any]:
    """Return the request; what is missing is told here, before the daemon is asked."""
    problems: list[str] = []
    if not matchers:
        problems.append("MATCHER: name what is to be silent, such as pipeline='daily*'")
    if lasts is None and until is None:
        problems.append(
            "--for: a silence needs an end; add --for 2h or --until 2026-11-21T18:00:00Z"
        )
    if lasts is not None and until is not None:
        problems.append("--until: --for is given too; leave one of them out")
    if not (comment or "").strip():
        problems.append("--comment: say why; who reads it later asks")
    if problems:
        raise ConfigurationError(problems)
    return {
        "matchers": matchers,
        "comment": comment,
        "for_seconds": None if lasts is None else durations.seconds("--for", lasts),
        "ends_at": None if until is None else daemon_client.instant("--until", until).isoformat(),
        "starts_at": None
        if starts is None
        else daemon_client.instant("--from", starts).isoformat(),
    }


def _show_silences(rows: daemon_client.Rows, as_json: bool) -> None:  # noqa: FBT001 - the option's value
    daemon_client.show(rows, _SILENCE_COLUMNS, as_json=as_json)


def _segment(told: str) -> str:
    from urllib.parse import quote  # noqa: PLC0415 - help must answer fast

    return quote(told, safe="")


def _user() -> str:
    import getpass  # noqa: PLC0415 - help must answer fast

    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user without a name, as in containers
        return "unknown"
