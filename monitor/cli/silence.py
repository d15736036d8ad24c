"""``silence``: alerts that stay quiet until an end."""

from __future__ import annotations

import getpass
import sys
from typing import Annotated, Any
from urllib.parse import quote

import typer

from monitor.cli import completers, daemon_client, time_options
from monitor.cli.options import DaemonOptions, OutputOptions
from monitor.cli.row_layout import Column, Form
from monitor.cli.tables import print_rows
from monitor.model.errors import ConfigurationError

_COLUMNS = (
    Column("id", "id", Form.COPIED),
    Column("state", "state", Form.STATE),
    Column("matchers", "matchers", Form.COPIED),
    Column("starts_at", "starts", Form.INSTANT),
    Column("ends_at", "ends", Form.INSTANT),
    Column("author", "by"),
    Column("origin", "made in"),
    Column("comment", "comment", Form.TEXT),
)


def silence(
    action: Annotated[
        str,
        typer.Argument(
            metavar="add|list|expire",
            help="What to do.",
            autocompletion=completers.silence_actions,
        ),
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MATCHER]...|[ID]",
            help="add: label=glob or label!=glob, and all must fit; expire: the silence.",
            autocompletion=completers.silence_words,
        ),
    ] = None,
    *,
    lasts: Annotated[str | None, typer.Option("--for", help="How long, as 30m, 2h, 7d.")] = None,
    until: Annotated[str | None, typer.Option(help="Its end: ISO 8601 with its zone.")] = None,
    starts: Annotated[str | None, typer.Option("--from", help="Its start; default: now.")] = None,
    comment: Annotated[str | None, typer.Option(help="Why; who reads it later asks.")] = None,
    author: Annotated[str | None, typer.Option(help="Who; default: the user's name.")] = None,
    output: OutputOptions,
    daemon: DaemonOptions,
) -> None:
    """Add, list or expire silences.

    A silenced alert stays on the page, and notifies when the silence ends, if it still fires.
    """
    given, form = words or [], output.form
    if action == "add":
        body = _request(given, lasts=lasts, until=until, starts=starts, comment=comment)
        body["author"] = author or user_name()
        added = daemon_client.post(daemon, "/api/v1/silences", body)
        print_rows([added], _COLUMNS, form)
        return
    if any(option is not None for option in (lasts, until, starts, comment, author)):
        raise typer.BadParameter("--for, --until, --from, --comment and --author belong to add")
    if action == "list":
        if given:
            raise typer.BadParameter("list takes no further words")
        rows = daemon_client.list_rows(daemon, "/api/v1/silences")
        print_rows(rows, _COLUMNS, form, empty="there is no silence")
    elif action == "expire":
        if len(given) != 1:
            raise typer.BadParameter("expire takes the id of one silence: see silence list")
        path = f"/api/v1/silences/{quote(given[0], safe='')}"
        sys.stdout.write(f"{daemon_client.delete(daemon, path)['detail']}\n")
    else:
        raise typer.BadParameter(f"{action!r} is none of add, list, expire")


def _request(
    matchers: list[str],
    *,
    lasts: str | None,
    until: str | None,
    starts: str | None,
    comment: str | None,
) -> dict[str, Any]:
    """Return the request.

    Raises:
        ConfigurationError: with every problem at once, before a request is sent.
    """
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
        "for_seconds": None if lasts is None else time_options.seconds("--for", lasts),
        "ends_at": None if until is None else time_options.instant("--until", until).isoformat(),
        "starts_at": None if starts is None else time_options.instant("--from", starts).isoformat(),
    }


def user_name() -> str:
    """Return who types this, as far as the machine knows."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user without a name, as in containers
        return "unknown"
