"""The sandbox as a process of its own, until a signal ends it."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence

from monitor import logs
from monitor.catalogue.operations import Edition
from monitor.cli import sandbox_faults, tables
from monitor.model.clock import SystemClock
from monitor.model.errors import MonitorError
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, TrafficSettings, WorkSettings


def run(
    port: int,
    *,
    edition: Edition,
    speed: float,
    seed: int,
    token: str | None,
    faults: Sequence[str],
    is_quiet: bool,
    shows_people: bool,
    as_json: bool,
) -> None:
    """Run a sandbox on this port until SIGTERM or SIGINT; 0 takes a free one.

    Raises:
        ConfigurationError: a fault is not known.
        MonitorError: the port cannot be listened on.
    """
    options = sandbox_faults.parse(faults)
    logs.configure()
    settings = SandboxSettings(
        edition=edition,
        seed=seed,
        token=token,
        options=options,
        work=WorkSettings(speed=speed),
        traffic=None if is_quiet else TrafficSettings(),
        schedules_fire=not is_quiet,
    )
    asyncio.run(_serve(settings, port, shows_people=shows_people, as_json=as_json))


async def _serve(
    settings: SandboxSettings, port: int, *, shows_people: bool, as_json: bool
) -> None:
    sandbox = Sandbox(settings, SystemClock())
    try:
        url = await sandbox.start(port)
    except OSError as exc:
        raise MonitorError(f"port {port} cannot be listened on: {exc.strerror}") from exc
    _print_access(sandbox, url, shows_people=shows_people, as_json=as_json)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    try:
        await stop.wait()
    finally:
        await sandbox.stop()


def _print_access(sandbox: Sandbox, url: str, *, shows_people: bool, as_json: bool) -> None:
    # The tokens open a made-up world only, and its user needs them.
    people = _people(sandbox) if shows_people else []
    if as_json:
        access: dict[str, object] = {"url": url, "token": sandbox.token}
        tables.print_json({**access, "people": people} if shows_people else access)
    else:
        sys.stdout.write(f"url: {url}\ntoken: {sandbox.token}\n")
        if shows_people:
            tables.print_plain(
                ("name", "role", "token"),
                [(person["name"], person["role"], person["token"]) for person in people],
            )
    sys.stdout.flush()


def _people(sandbox: Sandbox) -> list[dict[str, str]]:
    """Return everybody who has a token, with the first one made for them."""
    return [
        {
            "name": person.name,
            "role": "administrator" if person.is_admin else "member",
            "email": person.email,
            "token": next(
                token.value for token in sandbox.world.tokens.having("creator_id", person.id)
            ),
        }
        for person in sandbox.world.people.live()
    ]
