"""The sandbox as a process of its own, until a signal ends it."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence

from monitor import logs
from monitor.catalogue.operations import Edition
from monitor.cli import sandbox_faults
from monitor.model.clock import SystemClock
from monitor.model.errors import MonitorError
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, WorkSettings


def run(
    port: int,
    *,
    edition: Edition,
    speed: float,
    seed: int,
    token: str | None,
    faults: Sequence[str],
) -> None:
    """Run a sandbox on this port until SIGTERM or SIGINT; 0 takes a free one.

    Raises:
        ConfigurationError: a fault is not known.
        MonitorError: the port cannot be listened on.
    """
    options = sandbox_faults.parse(faults)
    logs.configure()
    settings = SandboxSettings(
        edition=edition, seed=seed, token=token, options=options, work=WorkSettings(speed=speed)
    )
    asyncio.run(_serve(settings, port))


async def _serve(settings: SandboxSettings, port: int) -> None:
    sandbox = Sandbox(settings, SystemClock())
    try:
        url = await sandbox.start(port)
    except OSError as exc:
        raise MonitorError(f"port {port} cannot be listened on: {exc.strerror}") from exc
    # The token opens a made-up world only, and its user needs it.
    sys.stdout.write(f"url: {url}\ntoken: {sandbox.token}\n")
    sys.stdout.flush()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    try:
        await stop.wait()
    finally:
        await sandbox.stop()
