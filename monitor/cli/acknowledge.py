"""``acknowledge``: no reminders of an alert that an operator knows of."""

from __future__ import annotations

import sys
from typing import Annotated
from urllib.parse import quote

import typer

from monitor.cli import daemon_client, time_options
from monitor.cli.options import DaemonOptions
from monitor.cli.silence import user_name
from monitor.model.errors import MonitorError


def acknowledge(
    fingerprint: Annotated[
        str, typer.Argument(metavar="FINGERPRINT", help="The alert, as `alerts` shows it.")
    ],
    *,
    lasts: Annotated[
        str | None,
        typer.Option("--for", help="How long, as 30m, 4h, 2d; default: as long as it fires."),
    ] = None,
    comment: Annotated[str, typer.Option(help="Why, or who works on it.")] = "",
    author: Annotated[str | None, typer.Option(help="Who; default: the user's name.")] = None,
    daemon: DaemonOptions,
) -> None:
    """Acknowledge an alert: no reminder of it goes out any more.

    Its end is still notified. When it fires again later, that is another alert. With --for,
    reminders begin again after that time, the first at once, if it still fires.
    """
    for_seconds = None if lasts is None else time_options.seconds("--for", lasts)
    path = f"/api/v1/alerts/{quote(fingerprint, safe='')}"
    found = daemon_client.get(daemon, path)
    alert = found.get("alert") if isinstance(found, dict) else None
    if alert is None:
        raise MonitorError(f"alert {fingerprint} is over; nothing is left to acknowledge")
    body = {
        "fingerprint": fingerprint,
        "starts_at": alert["starts_at"],
        "author": author or user_name(),
        "comment": comment,
        "for_seconds": for_seconds,
    }
    daemon_client.post(daemon, "/api/v1/acknowledgements", body)
    until = "" if lasts is None else f" for {lasts}"
    sys.stdout.write(
        f"alert {fingerprint} is acknowledged; no more reminders of it go out{until}\n"
    )
