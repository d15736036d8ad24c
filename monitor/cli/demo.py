"""``demo``: everything on one machine, nothing to install."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor.catalogue.operations import Edition
from monitor.cli import lazy
from monitor.cli.sandbox import EditionOption, SeedOption, SpeedOption


def demo(
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Of the page; 0 takes a free one.")
    ] = 8080,
    *,
    edition: EditionOption = Edition.RL,
    speed: SpeedOption = 60.0,
    seed: SeedOption = 1,
    seconds: Annotated[
        float | None,
        typer.Option("--for", min=1, metavar="SECONDS", help="Stop after so long and sum up."),
    ] = None,
    oauth: Annotated[
        bool, typer.Option("--oauth", help="Access tokens live for seconds and are refreshed.")
    ] = False,
    mail: Annotated[
        bool, typer.Option("--mail", help="Serve a mailbox with the mails that alerts make.")
    ] = False,
    no_events: Annotated[
        bool, typer.Option("--no-events", help="Print no line for each event.")
    ] = False,
) -> None:
    """Run sandbox, broker, daemon and page on this machine.

    Prints every event. With --for it sums up what the sandbox, an MQTT subscriber and /metrics
    have counted, each by itself; the three counts must agree. With --oauth the sandbox accepts only
    access tokens that a refresh token gives, as the vendor's cloud does. Alerts are mailed to a
    team: each mail is a line, and with --mail a page shows it. Ctrl-C ends it and leaves nothing
    on the machine.
    """
    code = lazy.demo_session.run(
        port=port,
        edition=edition,
        speed=speed,
        seed=seed,
        seconds=seconds,
        has_oauth=oauth,
        shows_mail=mail,
        shows_events=not no_events,
    )
    if code:
        raise typer.Exit(code)
