"""``events``: the recorded events, and new ones as they come."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor.cli import daemon_client, lazy, times
from monitor.cli.options import CONFIG_FILE, AsJson, ConfigFile


def events(
    config: ConfigFile = CONFIG_FILE,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as they happen.")] = False,
    since: Annotated[
        str | None,
        typer.Option(help="ISO 8601 instant with its zone, or as 2h; default: the last 100."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print recorded events, one a line, and follow new ones.

    ~ before a time: approximate, the workspace did not report it itself. recorded: before a time:
    the workspace reported none, and the monitor recorded the event then.
    """
    begin = None if since is None else times.since(since).isoformat()
    try:
        daemon_client.run_request(
            lazy.event_stream.print_events(config, follow=follow, since=begin, as_json=as_json)
        )
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
