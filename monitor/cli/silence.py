"""``silence``: alerts that stay quiet until an end."""

from __future__ import annotations

import getpass
import sys
from typing import Annotated, Any
from urllib.parse import quote

import typer

from monitor.cli import completers, daemon_client, times
from monitor.cli.options import CONFIG_FILE, AsJson, ConfigFile
from monitor.model.errors import ConfigurationError

_COLUMNS = ("id", "state", "matchers", "starts_at", "ends_at", "author", "comment", "origin")


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
            help="add: label=glob or label!=glob, all of which must fit; expire: the silence.",
            autocompletion=completers.silence_words,
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
    """Add, list or expire silences.

    A silenced alert stays on the page, and notifies when the silence ends, if it still fires.
    """
    given = words or []
    if action == "add":
        body = _request(given, lasts=lasts, until=until, starts=starts, comment=comment)
        body["author"] = author or _user()
        added = daemon_client.run_request(daemon_client.post(config, "/api/v1/silences", body))
        daemon_client.show([added], _COLUMNS, as_json=as_json)
        return
    if any(option is not None for option in (lasts, until, starts, comment, author)):
        raise typer.BadParameter("--for, --until, --from, --comment and --author belong to add")
    if action == "list":
        if given:
            raise typer.BadParameter("list takes no further words")
        answer = daemon_client.run_request(daemon_client.get(config, "/api/v1/silences", {}))
        daemon_client.show(answer["data"], _COLUMNS, as_json=as_json)
    elif action == "expire":
        if len(given) != 1:
            raise typer.BadParameter("expire takes the id of one silence: see silence list")
        path = f"/api/v1/silences/{quote(given[0], safe='')}"
        sys.stdout.write(
            f"{daemon_client.run_request(daemon_client.delete(config, path))['detail']}\n"
        )
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
        "for_seconds": None if lasts is None else times.seconds("--for", lasts),
        "ends_at": None if until is None else times.instant("--until", until).isoformat(),
        "starts_at": None if starts is None else times.instant("--from", starts).isoformat(),
    }


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user without a name, as in containers
        return "unknown"
