"""``sandbox``: a workspace to try things on, alone."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor.catalogue.operations import Edition
from monitor.cli import completers, lazy
from monitor.cli.options import AsJson

SpeedOption = Annotated[
    float, typer.Option(min=0.01, max=10_000, help="How many times faster work goes.")
]
SeedOption = Annotated[int, typer.Option(help="The same seed makes the same world.")]
EditionOption = Annotated[Edition, typer.Option(help="Which set of operations is offered.")]


def sandbox(
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 takes a free one.")] = 0,
    *,
    edition: EditionOption = Edition.RL,
    speed: SpeedOption = 1.0,
    seed: SeedOption = 1,
    token: Annotated[str | None, typer.Option(help="The administrator's access token.")] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            help="What goes wrong, such as latency=0.2,status_500=0.05; may be repeated.",
            autocompletion=completers.faults,
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Nothing starts by itself: no schedule, no caller.")
    ] = False,
    flows: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="How many flows there are.")
    ] = None,
    history: Annotated[
        str | None,
        typer.Option(metavar="SPAN", help="Give it a past of ended runs, such as 7d or 12h."),
    ] = None,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="Print every person's role and access token.")
    ] = False,
    show_faults: Annotated[
        bool, typer.Option("--faults", help="Print what can go wrong, and start nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run a workspace in which flows, plans and schedules run.

    It listens on this machine only. Prints its URL and an access token; --tokens prints those of
    all its people, who see different things. Everything lives in memory and ends with the command.
    With --history it has a past: runs at the times of their schedules, in which each recipe takes
    as long as it usually does; a run that is not over goes on. Its faults happen by chance, and the
    seed decides the chance; --faults lists them.
    """
    if show_faults:
        lazy.sandbox_faults.print_table(as_json=as_json)
        return
    lazy.sandbox_process.run(
        port,
        edition=edition,
        speed=speed,
        seed=seed,
        token=token,
        faults=fault or (),
        is_quiet=quiet,
        flows=flows,
        history=history,
        shows_people=tokens,
        as_json=as_json,
    )
