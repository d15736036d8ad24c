"""``sandbox``: a workspace to try things on, alone."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from monitor.catalogue.operations import Edition
from monitor.cli import completing
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
            autocompletion=completing.faults,
        ),
    ] = None,
    show_faults: Annotated[
        bool, typer.Option("--faults", help="Print what can go wrong, and start nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run a workspace in which flows, plans and schedules really run, on this machine only.

    Prints its URL and an access token. Everything lives in memory and ends with the command.
    Its faults happen by chance, and the seed decides the chance; --faults lists them.
    """
    if show_faults:
        _print_faults(as_json=as_json)
        return
    import asyncio  # noqa: PLC0415 - help must answer fast

    from monitor import logs  # noqa: PLC0415
    from monitor.model.errors import ConfigurationError  # noqa: PLC0415
    from monitor.sandbox.faults import FaultError, parse_faults  # noqa: PLC0415
    from monitor.sandbox.settings import SandboxSettings, WorkSettings  # noqa: PLC0415

    try:
        options = parse_faults(fault or ())
    except FaultError as exc:
        raise ConfigurationError(str(exc)) from exc
    logs.configure()
    settings = SandboxSettings(
        edition=edition, seed=seed, token=token, options=options, work=WorkSettings(speed=speed)
    )
    asyncio.run(_serve(settings, port))


def _print_faults(*, as_json: bool) -> None:
    from dataclasses import asdict  # noqa: PLC0415 - help must answer fast

    from monitor.cli.tables import print_json, print_table  # noqa: PLC0415
    from monitor.sandbox.faults import table  # noqa: PLC0415

    faults = table()
    if as_json:
        print_json([asdict(fault) for fault in faults])
        return
    print_table(
        ("fault", "takes", "alone", "what goes wrong"),
        [(fault.name, fault.takes, fault.alone or "", fault.description) for fault in faults],
    )


async def _serve(settings: object, port: int) -> None:
    import asyncio  # noqa: PLC0415 - help must answer fast
    import signal  # noqa: PLC0415

    from monitor.model.clock import SystemClock  # noqa: PLC0415
    from monitor.model.errors import MonitorError  # noqa: PLC0415
    from monitor.sandbox.sandbox import Sandbox  # noqa: PLC0415
    from monitor.sandbox.settings import SandboxSettings  # noqa: PLC0415

    assert isinstance(settings, SandboxSettings)  # noqa: S101 - typed late, to load late
    world = Sandbox(settings, SystemClock())
    try:
        url = await world.start(port)
    except OSError as exc:
        raise MonitorError(f"port {port} cannot be listened on: {exc.strerror}") from exc
    # The token opens a world of play, and whoever started it needs it.
    sys.stdout.write(f"url: {url}\ntoken: {world.token}\n")
    sys.stdout.flush()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    try:
        await stop.wait()
    finally:
        await world.stop()
