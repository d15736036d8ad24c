"""The daemon as a process: its signals, its reload from the file, its service manager."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry

from monitor import logs
from monitor.app.daemon import Daemon
from monitor.cli.service_manager import ServiceManager
from monitor.cli.settings_files import load
from monitor.config import Configuration
from monitor.logs import Redactor
from monitor.model.clock import SystemClock
from monitor.model.errors import MonitorError

log = structlog.get_logger()

_SWITCH_SECONDS = 0.0001
_COLLECTOR_THRESHOLDS = (5_000, 20, 50)


def run(config: Path) -> None:
    """Run the daemon of a configuration file until SIGTERM or SIGINT has drained it.

    Raises:
        MonitorError: it could not start, or its store was lost.
    """
    configuration = load(config)
    redactor = logs.configure(
        level=configuration.log.level,
        form=configuration.log.form,
        secrets=configuration.secrets(),
    )
    # A thread renders a metrics page for some 25 ms, and a commit gives up the interpreter at
    # every statement: with Python's own 5 ms each of these turns would delay a callback.
    sys.setswitchinterval(_SWITCH_SECONDS)
    asyncio.run(_serve(config, configuration, redactor))


async def _serve(path: Path, configuration: Configuration, redactor: Redactor) -> None:
    clock = SystemClock()
    manager = ServiceManager.of(os.environ, process_id=os.getpid(), clock=clock)
    daemon = Daemon(configuration, clock=clock, registry=CollectorRegistry())
    stop, hang_up = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    loop.add_signal_handler(signal.SIGHUP, hang_up.set)

    async def reload_on_hang_up() -> None:
        while True:
            await hang_up.wait()
            hang_up.clear()
            with manager.reloading():
                manager.change_status(await _reload(daemon, path, redactor))

    beside = {"reload": reload_on_hang_up}
    if manager.watches:
        beside["watchdog"] = lambda: manager.feed(daemon.probe)

    def started(_: object) -> None:
        _exempt_from_collection()
        manager.started(_status(configuration))

    await daemon.run(
        stop,
        on_started=started,
        on_draining=manager.stopping,
        beside=beside,
    )


def _exempt_from_collection() -> None:
    """Let the garbage collector run seldom, and only over objects made after the start.

    Modules, settings and what the store has loaded are hundreds of thousands of objects. Scanning
    all of them halts every thread for 30 to 100 ms, and a callback with it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTOR_THRESHOLDS)


async def _reload(daemon: Daemon, path: Path, redactor: Redactor) -> str:
    """Reload the daemon from the file as it is now; return one line about what it does then."""
    try:
        configuration = load(path)
        redactor.register(*configuration.secrets())
        sections = await daemon.reload(configuration)
    except MonitorError as exc:
        return _refused(daemon, exc)
    later = f"; a restart is needed for {', '.join(sections)}" if sections else ""
    return _status(configuration) + later


def _refused(daemon: Daemon, exc: MonitorError) -> str:
    daemon.refuse_configuration()
    log.error("configuration refused, the former one stays", reason=str(exc))
    # The reason stays in the log, where secrets are masked.
    return "the new configuration was refused, the log says why; the former one stays"


def _status(configuration: Configuration) -> str:
    names = ", ".join(workspace.name for workspace in configuration.workspaces)
    return f"following {names}"
