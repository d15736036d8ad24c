"""``run``: the daemon, with the signals that steer it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from monitor.cli.options import CONFIG_FILE, ConfigFile

if TYPE_CHECKING:
    from monitor.app.daemon import Daemon
    from monitor.config import Configuration
    from monitor.logs import Redactor

_SWITCH_SECONDS = 0.0001
_COLLECTOR_THRESHOLDS = (5_000, 20, 50)


def run(config: ConfigFile = CONFIG_FILE) -> None:
    """Run the daemon in the foreground.

    SIGTERM and SIGINT drain and end it; SIGHUP reads the configuration again. A configuration that
    is refused changes nothing and is told in the log and in the metrics.
    """
    import asyncio  # noqa: PLC0415 - help must answer fast
    import sys  # noqa: PLC0415

    from monitor import logs  # noqa: PLC0415
    from monitor.cli.settings_files import load  # noqa: PLC0415

    configuration = load(config)
    redactor = logs.configure(
        level=configuration.log.level,
        form=configuration.log.form,
        secrets=configuration.secrets(),
    )
    # A metrics page is drawn in a thread for some 25 ms, a commit gives the interpreter away at
    # every statement: by Python's own 5 ms each of these turns would hold up a callback.
    sys.setswitchinterval(_SWITCH_SECONDS)
    asyncio.run(_serve(config, configuration, redactor))


async def _serve(path: Path, configuration: Configuration, redactor: Redactor) -> None:
    import asyncio  # noqa: PLC0415 - help must answer fast
    import os  # noqa: PLC0415
    import signal  # noqa: PLC0415

    from prometheus_client import CollectorRegistry  # noqa: PLC0415

    from monitor.app.daemon import Daemon  # noqa: PLC0415
    from monitor.cli.service_manager import ServiceManager  # noqa: PLC0415
    from monitor.model.clock import SystemClock  # noqa: PLC0415

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
                manager.change_standing(await _reload(daemon, path, redactor))

    beside = {"reload": reload_on_hang_up}
    if manager.watches:
        beside["watchdog"] = lambda: manager.feed(daemon.probe)

    def started(_: object) -> None:
        _spare_what_stays()
        manager.started(_status(configuration))

    await daemon.run(
        stop,
        on_started=started,
        on_draining=manager.stopping,
        beside=beside,
    )


def _spare_what_stays() -> None:
    """Let the collector of cycles look at what is new, seldom, and not at what is here for good.

    Modules, settings and what the store has loaded are hundreds of thousands of objects. A look at
    all of them halts every thread for 30 to 100 ms, and a callback with it.
    """
    import gc  # noqa: PLC0415 - help must answer fast

    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTOR_THRESHOLDS)


async def _reload(daemon: Daemon, path: Path, redactor: Redactor) -> str:
    """Let the daemon take the file as it is now; return one line about what it does then."""
    import structlog  # noqa: PLC0415 - help must answer fast

    from monitor.cli.settings_files import load  # noqa: PLC0415
    from monitor.model.errors import MonitorError  # noqa: PLC0415

    try:
        wanted = load(path)
        redactor.register(*wanted.secrets())
        waiting = await daemon.reload(wanted)
    except MonitorError as exc:
        daemon.refuse_configuration()
        structlog.get_logger().error("configuration refused, the former one stays", reason=str(exc))
        # The reason stays in the log, where secrets are masked.
        return "the new configuration was refused, the log says why; the former one stays"
    later = f"; a restart is needed for {', '.join(waiting)}" if waiting else ""
    return _status(wanted) + later


def _status(configuration: Configuration) -> str:
    names = ", ".join(workspace.name for workspace in configuration.workspaces)
    return f"following {names}"
