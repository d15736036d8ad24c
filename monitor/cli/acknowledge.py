"""``acknowledge``: no more reminders of an alert that an operator knows of."""

from __future__ import annotations

import sys
from typing import Annotated
from urllib.parse import quote

import typer

from monitor.cli import daemon_client
from monitor.cli.options import DaemonOptions
from monitor.cli.silence import user_name
from monitor.model.errors import MonitorError


def acknowledge(
    fingerprint: Annotated[
        str, typer.Argument(metavar="FINGERPRINT", help="The alert, as `alerts` shows it.")
    ],
    *,
    comment: Annotated[str, typer.Option(help="Why, or who works on it.")] = "",
    author: Annotated[str | None, typer.Option(help="Who; default: the user's name.")] = None,
    daemon: DaemonOptions,
) -> None:
    """Acknowledge an alert: no reminder of it goes out any more.

    Its end is still notified. When it fires again later, that is another alert.
    """
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
    }
    daemon_client.post(daemon, "/api/v1/acknowledgements", body)
    sys.stdout.write(f"alert {fingerprint} is acknowledged; no more reminders of it go out\n")
