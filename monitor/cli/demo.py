"""``demo``: everything on one machine, nothing to install."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor.catalogue.operations import Edition
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
) -> None:
    """Run a sandbox workspace, a broker, the daemon and its page, and print every event.

    With --for it sums up what the sandbox, an MQTT subscriber and /metrics have counted, each by
    itself; they must agree. Ctrl-C ends it and leaves nothing behind.
    """
    import asyncio  # noqa: PLC0415 - help must answer fast

    from monitor import logs  # noqa: PLC0415
    from monitor.cli.demonstration import Demonstration  # noqa: PLC0415

    logs.configure(level="error")
    demonstration = Demonstration(
        port=port, edition=edition, speed=speed, seed=seed, seconds=seconds
    )
    code = asyncio.run(demonstration.run())
    if code:
        raise typer.Exit(code)
