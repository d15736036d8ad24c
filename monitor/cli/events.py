"""``events``: the recorded events, and new ones as they come."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor.cli import daemon_client, lazy, time_options
from monitor.cli.options import DaemonOptions, OnlyWorkspace, OutputOptions
from monitor.model.events import EventType
from monitor.model.runs import RunKind


def events(
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as they happen.")] = False,
    workspace: OnlyWorkspace = None,
    kind: Annotated[RunKind | None, typer.Option(help="Only of this kind of run.")] = None,
    pipeline: Annotated[
        str | None, typer.Option(help="Only of this flow or plan, by its name or id.")
    ] = None,
    types: Annotated[
        list[EventType] | None,
        typer.Option("--type", help="Only this type, such as run.failed; may be repeated."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(help="ISO 8601 instant with its zone, or as 2h; default: the last 100."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="How many at most, 0 for all.")
    ] = None,
    output: OutputOptions,
    daemon: DaemonOptions,
) -> None:
    """Print recorded events, one a line, and follow new ones.

    ~ before a time: approximate, the workspace did not report it itself. recorded: before a time:
    the workspace reported none, and the monitor recorded the event then.
    """
    request = lazy.event_stream.EventRequest(
        fits=lazy.event_lines.EventFilter(
            workspace=workspace, kind=kind, pipeline=pipeline, types=tuple(types or ())
        ),
        since=None if since is None else time_options.since(since).isoformat(),
        follow=follow,
        limit=limit,
        form=output.form,
    )
    address = daemon_client.address_of(daemon)
    try:
        lazy.event_stream.print_events(address, request)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
