"""``notify``: the channels to people, a test of them, and what they would send about an alert."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from monitor.cli import completers, daemon_client, lazy
from monitor.cli.options import DaemonOptions, OutputOptions


def notify(
    action: Annotated[
        str,
        typer.Argument(
            metavar="test|list|preview",
            help="What to do.",
            autocompletion=completers.notify_actions,
        ),
    ],
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME|FINGERPRINT]",
            help="test, list: only this channel; preview: the alert.",
        ),
    ] = None,
    *,
    output: OutputOptions,
    daemon: DaemonOptions,
) -> None:
    """List the channels to people, test them, or preview their messages.

    A test is two marked messages: an alert that fires, and its end. The daemon need not run.
    Exits 1 when a channel did not take a message. A preview comes from the running daemon: what
    each channel would send about an alert now, or why it would not. It sends nothing.
    """
    if action == "preview":
        if name is None:
            raise typer.BadParameter("preview takes the fingerprint of an alert: see alerts")
        path = f"/api/v1/alerts/{quote(name, safe='')}/messages"
        lazy.message_previews.print_previews(daemon_client.list_rows(daemon, path), output.form)
        return
    if action not in completers.notify_actions():
        raise typer.BadParameter(f"{action!r} is none of test, list, preview")
    if daemon.is_typed("url"):
        raise typer.BadParameter(f"--url belongs to preview; {action} reads a configuration")
    if action == "list":
        lazy.channel_tests.list_channels(daemon.config, name=name, form=output.form)
    elif not lazy.channel_tests.test_channels(daemon.config, name=name, form=output.form):
        raise typer.Exit(1)
